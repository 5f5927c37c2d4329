"""`score`, `predict`, `sample`, `denoise`, `inspect`, `plan` and `warm-up`, for real."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client, Security
from PIL import Image

from tests.clusters import local_cluster
from tests.command.test_program import error_of
from tests.samples import images, write_store
from vmfa_dask import MixtureModel, denoise
from vmfa_dask.command import main


def test_score_prints_the_mean_and_writes_each_row(
    store: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = MixtureModel.load(model).score_samples(store)
    line = f"{expected.mean():.6f} nats per row, 600 rows\n"
    assert main(["score", model, store]) == 0
    assert capsys.readouterr().out == line
    output = str(tmp_path / "scores.zarr")
    assert main(["score", model, store, "--output", output]) == 0
    assert capsys.readouterr().out == f"{line}log-densities written to {output}\n"
    np.testing.assert_array_equal(zarr.open_array(output, mode="r")[:], expected)


def test_predict_writes_components_here_and_on_a_cluster(
    store: str, model: str, tmp_path: Path, in_process: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = MixtureModel.load(model).predict(store)
    for name, options in (("a", []), ("b", ["--scheduler", in_process.scheduler.address])):
        output = str(tmp_path / name)
        assert main(["predict", model, store, "--output", output, *options]) == 0
        assert capsys.readouterr().out == f"components of 600 rows written to {output}\n"
        np.testing.assert_array_equal(zarr.open_array(output, mode="r")[:], expected)
    scheduler = ["--scheduler", in_process.scheduler.address]
    assert "expected --output" in error_of(["score", model, store, *scheduler], capsys, 2)


def test_a_scheduler_that_talks_tls_is_reached_with_credentials(
    store: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    security = Security.temporary()
    words: list[str] = []
    for flag, pem in (
        ("--tls-ca", security.tls_ca_file),
        ("--tls-cert", security.tls_client_cert),
        ("--tls-key", security.tls_client_key),
    ):
        (tmp_path / flag).write_text(pem)
        words += [flag, str(tmp_path / flag)]
    output = str(tmp_path / "labels.zarr")
    with local_cluster(1, processes=False, protocol="tls://", host="127.0.0.1", security=security) as cluster:
        words += ["--scheduler", cluster.scheduler_address]
        assert main(["predict", model, store, "--output", output, *words]) == 0
        capsys.readouterr()
        plain = cluster.scheduler_address.replace("tls://", "tcp://")
        line = error_of(["predict", model, store, "--output", output, *words[:-1], plain], capsys, 2)
    assert line.endswith("expected tls://host:port with --tls-ca")
    np.testing.assert_array_equal(zarr.open_array(output, mode="r")[:], MixtureModel.load(model).predict(store))


def test_one_array_of_a_group_is_chosen(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, n in (("train", 50), ("test", 20)):
        write_store(tmp_path / "group.zarr" / side, images(n, (4, 4)), 10)
    zarr.open_group(tmp_path / "group.zarr", mode="a")
    group = str(tmp_path / "group.zarr")
    assert "choose one by the argument array=" in error_of(["score", model, group], capsys, 1)
    assert main(["score", model, group, "--array", "test"]) == 0
    assert "20 rows" in capsys.readouterr().out
    assert main(["inspect", group]) == 0
    text = capsys.readouterr().out
    assert "train:   shape 50 x 4 x 4, dtype uint8, chunks 10 x 4 x 4, format Zarr 3" in text


def test_sample_draws_the_rows_of_the_library(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "drawn.zarr")
    assert main(["sample", model, "30", "--output", output, "--random-state", "4"]) == 0
    assert "30 rows of shape (4, 4)" in capsys.readouterr().out
    np.testing.assert_array_equal(zarr.open_array(output, mode="r")[:], MixtureModel.load(model).sample(30, 4)[0])
    assert error_of(["sample", model, "30", "--output", output], capsys, 1).startswith("error: ")
    assert "'N'" in error_of(["sample", model, "0", "--output", output], capsys, 2)


def test_denoise_writes_the_image_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 30), dtype=np.uint8)
    source, output = str(tmp_path / "noisy.png"), str(tmp_path / "clean.png")
    Image.fromarray(pixels).save(source)
    words = ["denoise", source, "--output", output, "--n-components", "4", "--n-factors", "2", "--patch", "4", "4"]
    assert main([*words, "--merge", "mean", "--quality", "paper"]) == 0
    assert capsys.readouterr().out == f"24 x 30 pixels written to {output}\n"
    expected = denoise(pixels, n_components=4, n_factors=2, patch=(4, 4), merge="mean")
    np.testing.assert_array_equal(np.asarray(Image.open(output)), expected)
    assert "exists; choose another path" in error_of(words, capsys, 2)
    assert "names no image format" in error_of(["denoise", source, "--output", str(tmp_path / "x.zzz")], capsys, 2)
    (tmp_path / "text.png").write_text("text")
    words[1:4] = [str(tmp_path / "text.png"), "--output", str(tmp_path / "y.png")]
    assert "expected an image" in error_of(words, capsys, 1)


def test_inspect_tells_stores_models_runs_and_files_apart(
    store: str, model: str, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((3, 2), np.float32))
    expected = {
        store: ("Zarr array in ", "shape:   600 x 4 x 4", "dtype:   uint8", "chunks:  100 x 4 x 4", "on disk: "),
        model: ("model in ", "components:      3", "features:        16 (4 x 4)", "vmfa_dask.mixture, version", "tol="),
        run: ("run in ", "rows:       600 of shape 4 x 4, uint8", "phase:      done", "n_components=3"),
        str(tmp_path / "rows.npy"): ("NumPy array in ", "shape:   3 x 2", "dtype:   float32"),
    }
    for path, facts in expected.items():
        assert main(["inspect", path]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"{facts[0]}{path}\n")
        assert all(fact in text for fact in facts), text


def test_inspect_refuses_anything_else_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("text")
    assert f"error: {text}: a file, and neither" in error_of(["inspect", str(text)], capsys, 1)
    zarr.open_group(tmp_path / "empty.zarr", mode="w")
    assert "a Zarr group without arrays" in error_of(["inspect", str(tmp_path / "empty.zarr")], capsys, 1)


def test_plan_projects_memory_from_a_store_or_from_numbers(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", store, "--n-components", "3", "--memory-limit", "1 GB", "-q"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("600 rows of 16 features (uint8)")
    assert "it fits a worker of 954 MiB" in text
    numbers = ["--rows", "1000000", "--features", "3072", "--dtype", "uint8", "--n-components", "5000"]
    assert main(["plan", *numbers, "--memory-limit", "2 GB", "-q"]) == 0
    text = capsys.readouterr().out
    assert "it does not fit: a worker would need" in text
    assert "would fit" in text
    assert main(["plan", store, "--n-components", "3", "--time", "--machines", "2", "-q"]) == 0
    assert "on 2 machine(s) with 1 process(es)" in capsys.readouterr().out
    for words in ([store, "--rows", "3"], ["--rows", "3"], []):
        line = error_of(["plan", *words, "--n-components", "3"], capsys, 2)
        assert line == "error: expected either DATA, or --rows and --features"
    assert "--dtype zzz: expected" in error_of(["plan", *numbers, "--dtype", "zzz"], capsys, 2)


def test_warm_up_compiles_what_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["warm-up", "--dtype", "uint8", "--n-factors", "2", "--init-params", "pilot"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("uint8 rows, 2 factors, pilot: ready after")
    assert "n_factors=-1" in error_of([*words, "--n-factors", "-1"], capsys, 2)
    assert "--dtype zzz: expected" in error_of(["warm-up", "--dtype", "zzz"], capsys, 2)
