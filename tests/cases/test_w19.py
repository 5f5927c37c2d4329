"""W19: models and runs on disk outlive the version that wrote them; what cannot be read is refused by name.

Each folder ``tests/fixtures/v*`` holds what one version wrote (see `tests/fixtures/make.py`).
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from vmfa_dask import Fit, MixtureModel, fit_distributed, fit_local
from vmfa_dask.command import main
from vmfa_dask.store import models, run_files

FOLDERS = sorted((Path(__file__).parents[1] / "fixtures").glob("v*"))
FUTURE = 99


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what one version wrote, at another path, so that nothing can change the original."""
    copy = tmp_path / "moved [here]" / request.param.name
    return shutil.copytree(request.param, copy, ignore=shutil.ignore_patterns("*.lock"))


def expected_of(old: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((old / "expected.json").read_text())
    return values


def go_on(old: Path, **options: Any) -> Fit:
    """The call that made the run, again."""
    run = str(old / "run")
    return fit_local(np.load(old / "rows.npy"), **expected_of(old)["options"], run=run, resume="require", **options)


def files_of(old: Path) -> list[Path]:
    """Files of the model and of the run."""
    return [path for name in ("model", "run") for path in sorted((old / name).rglob("*")) if path.is_file()]


def test_there_is_a_folder_of_the_formats_in_use() -> None:
    known = [json.loads((folder / "model" / "zarr.json").read_text())["attributes"] for folder in FOLDERS]
    assert (models.FORMAT, models.FORMAT_VERSION) in {(a["format"], a["format_version"]) for a in known}
    formats = [json.loads((folder / "run" / "run.json").read_text())["format"] for folder in FOLDERS]
    assert {"name": run_files.FORMAT, "version": run_files.FORMAT_VERSION} in formats


def test_an_old_model_scores_as_it_did(old: Path) -> None:
    expected, rows = expected_of(old), np.load(old / "rows.npy")
    model = MixtureModel.load(old / "model")
    assert model.score(rows) == pytest.approx(np.mean(expected["log_densities"]), abs=1e-6)
    # Processors of other register widths differ by up to 2e-6 of single values in float32.
    np.testing.assert_allclose(model.score_samples(rows), expected["log_densities"], rtol=1e-5)
    assert model.predict(rows).tolist() == expected["labels"]
    assert model.feature_shape == rows.shape[1:]
    assert model.mixture.offset.any()


def _distributed(old: Path, client: Client, **options: Any) -> Fit:
    rows, run = np.load(old / "rows.npy"), str(old / "run")
    return fit_distributed(rows, **expected_of(old)["options"], client=client, run=run, resume="require", **options)


@pytest.mark.parametrize("where", ["local", "distributed"])
def test_an_old_run_goes_on_to_the_recorded_end(old: Path, where: str, in_process: Client) -> None:
    expected, passes = expected_of(old), list[int]()
    call: Callable[..., Fit] = go_on if where == "local" else lambda old, **o: _distributed(old, in_process, **o)
    fit = call(old, progress=lambda record: passes.append(record.iteration))
    energies = [record.free_energy for record in fit.history]
    assert passes == list(range(expected["first_pass"], len(expected["free_energies"])))
    assert 0 < len(passes) < len(energies)
    np.testing.assert_allclose(energies, expected["free_energies"], rtol=0, atol=1e-6)
    # The model of the folder is that of the undisturbed run.
    rows = np.load(old / "rows.npy")
    assert fit.model.score(rows) == pytest.approx(np.mean(expected["log_densities"]), abs=1e-6)


def test_a_run_from_before_held_out_rows_is_shown_and_refuses_them(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files have no `validation` anywhere; what resumes it is that call without the argument (see above)."""
    assert not [path for path in (old / "run").glob("*.json") if "validation" in path.read_text()]
    assert main(["status", str(old / "run")]) == 0
    text = capsys.readouterr().out
    assert "next pass:   training: pass " in text
    assert "driver:      none" in text
    with pytest.raises(ValueError, match="begun without validation; leave validation out to go on with it"):
        go_on(old, validation=np.load(old / "rows.npy")[:20])
    fit = go_on(old)
    assert [record.validation for record in fit.history] == [None] * len(fit.history)
    assert not fit.stopped


def names_both(message: str, version: int) -> bool:
    """Whether a message names the format number of the file and the one that this version knows."""
    numbers = re.findall(r"(?<![\w.])\d+(?![\w.])", message)
    return str(FUTURE) in numbers and str(version) in numbers


def test_a_model_of_a_future_format_is_refused(old: Path) -> None:
    path = old / "model" / "zarr.json"
    values = json.loads(path.read_text())
    values["attributes"]["format_version"] = FUTURE
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="format") as found:
        MixtureModel.load(old / "model")
    assert names_both(str(found.value).replace(str(old), ""), models.CHUNKED_VERSION)


def test_a_run_of_a_future_format_is_refused_and_left_alone(old: Path) -> None:
    path = old / "run" / "run.json"
    values = json.loads(path.read_text())
    values["format"]["version"] = FUTURE
    path.write_text(json.dumps(values))
    before = {path: path.read_bytes() for path in files_of(old)}
    with pytest.raises(ValueError, match="format") as found:
        go_on(old)
    assert names_both(str(found.value).replace(str(old), ""), run_files.FORMAT_VERSION)
    assert {path: path.read_bytes() for path in files_of(old) if path.suffix != ".lock"} == before


def unclear(old: Path, path: Path, length: int) -> str | None:
    """What happens with a file that ends early, unless it is an error that says so and where."""
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    kind = path.relative_to(old).parts[0]
    try:
        MixtureModel.load(old / "model") if kind == "model" else go_on(old)
    except ValueError as error:
        message = str(error)
        if str(old / kind) in message and re.search(r"damaged|incomplete", message):
            return None
        outcome = f"{type(error).__name__}: {error}"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    else:
        outcome = "nothing"
    finally:
        path.write_bytes(whole)
    return f"{path.relative_to(old)}, {length} of {len(whole)} bytes: {outcome}"


def _is_only_for_xarray(path: Path) -> bool:
    """Groups above the blocks of versions join them to one tree; a run does not read their metadata."""
    return path.parts[:2] == ("run", "versions") and path.name == "zarr.json" and len(path.parts) < 6


def cut(old: Path, metadata: bool) -> list[str]:
    """Unclear outcomes over all files of one sort, each cut at three places."""
    paths = [path for path in files_of(old) if (path.name == "zarr.json") == metadata]
    paths = [path for path in paths if not _is_only_for_xarray(path.relative_to(old))]
    assert paths
    cuts = [(path, length) for path in paths for size in [path.stat().st_size] for length in (0, size // 2, size - 1)]
    return [found for path, length in cuts if (found := unclear(old, path, length))]


def test_truncated_numbers_and_markers_are_clear_errors(old: Path) -> None:
    assert cut(old, metadata=False) == []


def test_truncated_metadata_is_a_clear_error(old: Path) -> None:
    assert cut(old, metadata=True) == []


def test_files_are_json_and_bare_numbers(old: Path) -> None:
    chunks = 0
    for path in files_of(old):
        content = path.read_bytes()
        assert not (content[:1] == b"\x80" and content[-1:] == b"."), f"{path} looks like a pickle"
        if path.suffix == ".json":
            assert isinstance(json.loads(content), dict)
            continue
        # What is no JSON is the only chunk of an array: its numbers as they are in memory, and a checksum.
        node = next(parent for parent in path.parents if (parent / "zarr.json").exists())
        metadata = json.loads((node / "zarr.json").read_text())
        assert re.fullmatch(r"c(/0)+", str(path.relative_to(node)))
        assert [codec["name"] for codec in metadata["codecs"]] == ["bytes", "crc32c"]
        dtype = np.dtype(metadata["data_type"])
        assert dtype.kind in "if"
        assert len(content) == dtype.itemsize * np.prod(metadata["shape"]) + 4
        chunks += 1
    assert chunks >= 10


def test_a_model_is_loaded_without_pickle(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert MixtureModel.load(old / "model").n_components == expected_of(old)["options"]["n_components"]
