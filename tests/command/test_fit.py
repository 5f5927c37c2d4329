"""`fit`, `resume` and `status`, for real; configuration files and dry runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from distributed import Client

from tests.command.test_program import error_of
from tests.programs import ROOT
from tests.samples import images, parameters, write_store
from tests.service.test_detached import wait_until
from vmfa_dask import MixtureModel, attach, fit_local
from vmfa_dask.command import main
from vmfa_dask.command.configuration import as_toml
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.service.keywords import ClusterKeywords
from vmfa_dask.store.run_inspection import driver_holds, read_call
from vmfa_dask.store.runs import RunFolder

SIZES = ["--n-components", "3", "--n-factors", "2"]


def test_fit_makes_the_model_of_the_library(store: str, model: str) -> None:
    expected = fit_local(store, n_components=3, n_factors=2).model
    assert parameters(MixtureModel.load(model)) == parameters(expected)


def test_results_are_printed_and_progress_goes_to_the_error_stream(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "m.zarr")
    assert main(["fit", store, *SIZES, "--output", output, "--max-iter", "2", "--neighborhood", "3,2,2"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Fit\n  passes:")
    assert captured.out.endswith(f"model saved in {output}\n")
    assert "free energy" in captured.err
    assert "rows/s" in captured.err
    assert main(["fit", store, *SIZES, "--output", output, "--max-iter", "2", "--overwrite", "-q"]) == 0


@pytest.mark.slow
def test_held_out_rows_are_a_share_or_a_store(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fit_local(store, n_components=3, n_factors=2, validation=0.25, patience=2).model
    output = str(tmp_path / "m.zarr")
    options = ["fit", store, *SIZES, "--patience", "2", "--output", output]
    assert main([*options, "--validation", "0.25"]) == 0
    assert "  validation " in capsys.readouterr().err
    assert parameters(MixtureModel.load(output)) == parameters(expected)
    monkeypatch.chdir(os.path.dirname(store))
    assert main([*options, "--validation", os.path.basename(store), "--overwrite"]) == 0
    capsys.readouterr()
    message = "validation=0.7: expected rows, or a share in (0, 0.5]"
    assert message in error_of([*options, "--overwrite", "--validation", "0.7"], capsys, 2)


def test_calls_whose_result_would_be_lost_are_refused_before_any_work(
    store: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", store, *SIZES]
    assert "the model would be lost; expected --output" in error_of(fit, capsys, 2)
    assert "exists; choose another path, or pass --overwrite" in error_of([*fit, "--output", model], capsys, 2)
    missing = str(tmp_path / "none" / "m.zarr")
    assert error_of([*fit, "--output", missing], capsys, 2).endswith("its folder does not exist")
    assert "--detach: expected --scheduler" in error_of([*fit, "--run", missing, "--detach"], capsys, 2)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--scheduler", "tpc://a:1"], "--scheduler tpc://a:1: no such transport as tpc://; did you mean tcp?"),
        (["--scheduler", "tcp://a:1", "--workers", "2"], "--workers is for clusters on this machine"),
        (["--tls-ca", str(ROOT)], "expected --tls-ca, --tls-cert and --tls-key together"),
        (["--memory-limit", "4 XB"], "--memory-limit 4 XB: expected bytes, or a text such as '4 GB'"),
        (["--truncation", "0"], "truncation=0: expected an integer >= 1"),
        (["--neighborhood", "a"], "invalid value for '--neighborhood': 'a': expected a whole number"),
    ],
)
def test_options_that_make_no_sense_are_named(
    store: str, tmp_path: Path, options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", store, *SIZES, "--run", str(tmp_path / "r"), *options]
    assert error_of(words, capsys, 2).startswith(f"error: {line}")


def test_a_dry_run_prints_every_option_and_reads_it_back(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", store, *SIZES, "--dry-run", "--neighborhood", "3,2,2", "--worker-timeout", "2 minutes"]) == 0
    text = capsys.readouterr().out
    values = tomllib.loads(text)
    assert {field.name for field in fields(Settings)} <= set(values)
    assert (values["data"], values["neighborhood"], values["worker_timeout"]) == (store, [3, 2, 2], "2 minutes")
    not_options = {"client", "progress", "verbose", "sample_dim"}
    assert all(name in text for name in set(ClusterKeywords.__annotations__) - not_options)
    assert "# peak memory of a worker:" in text
    (tmp_path / "fit.toml").write_text(text)
    assert main(["fit", "--config", str(tmp_path / "fit.toml"), "--dry-run"]) == 0
    assert capsys.readouterr().out == text


def test_the_command_line_counts_more_than_the_file(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "fit.toml"
    config.write_text(f'data = "{store}"\nn_components = 4\nn_factors = 2\nlearn_weights = false\nmax_iter = 7\n')
    assert main(["fit", "--config", str(config), "--dry-run", "--n-components", "3", "--learn-weights"]) == 0
    values = tomllib.loads(capsys.readouterr().out)
    assert [values[name] for name in ("n_components", "learn_weights", "max_iter")] == [3, True, 7]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n_componets = 3", "no such key n_componets; did you mean n_components?"),
        ("n-factors = 3", "no such key n-factors; did you mean n_factors?"),
        ("dry_run = true", "no such key dry_run"),
        ("n_components = 3.5", "n_components = 3.5: expected a whole number"),
        ("learn_weights = 1", "learn_weights = 1: expected true or false"),
        ('neighborhood = [3, "a"]', 'neighborhood = [3, "a"]: expected a whole number, or a list of several'),
        ("run = 3", "run = 3: expected a text"),
        ("n_components = ", "Invalid value"),
    ],
)
def test_mistakes_in_a_file_are_one_line(
    tmp_path: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "fit.toml"
    config.write_text(line)
    assert error_of(["fit", "--config", str(config), "--dry-run"], capsys, 2).startswith(f"error: {config}: {message}")


def test_texts_survive_toml() -> None:
    values = {"a": 'quo"te \\ \n é \x7f', "b": 5e-05, "c": True, "d": (1, 2), "e": 3}
    assert tomllib.loads(as_toml({**values, "f": None})) == {**values, "d": [1, 2]}


def test_a_run_is_resumed_with_the_options_it_was_begun_with(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = str(tmp_path / "run"), str(tmp_path / "m.zarr")
    assert main(["fit", store, *SIZES, "--run", run, "--output", output, "--max-iter", "2", "--tol", "0", "-q"]) == 0
    assert tomllib.loads(read_call(run) or "")["data"] == store
    assert main(["resume", run, "--max-iter", "4", "-q"]) == 0
    whole = fit_local(store, n_components=3, n_factors=2, max_iter=4, tol=0.0).model
    assert parameters(MixtureModel.load(output)) == parameters(whole)
    capsys.readouterr()
    assert main(["status", run, "--follow"]) == 0
    text = capsys.readouterr().out
    assert "phase:       done" in text
    assert "driver:      none" in text
    assert text.count("training ") == 4


def test_a_run_of_python_is_resumed_when_its_rows_are_given(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = str(tmp_path / "run"), str(tmp_path / "m.zarr")
    fit_local(store, n_components=3, n_factors=2, max_iter=2, tol=0.0, run=run)
    assert "expected --data PATH" in error_of(["resume", run], capsys, 2)
    words = ["resume", run, "--data", store, "--tol", "0", "--max-iter", "3", "--output", output, "-q"]
    assert main(words) == 0
    whole = fit_local(store, n_components=3, n_factors=2, max_iter=3, tol=0.0).model
    assert parameters(MixtureModel.load(output)) == parameters(whole)


def test_status_tells_whether_a_driver_holds_the_run(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(run)
    try:
        assert driver_holds(run) is True
        assert main(["status", run]) == 0
        assert "driver:      at work" in capsys.readouterr().out
    finally:
        folder.release()
    assert driver_holds(run) is False


def test_status_of_a_run_in_progress_says_where_it_is(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")

    def look(record: IterationRecord) -> None:
        if len(seen) < record.iteration:
            return
        assert main(["status", run]) == 0
        seen.append(capsys.readouterr().out)

    seen: list[str] = []
    fit_local(
        store, n_components=3, n_factors=2, max_iter=4, max_warmup_iter=1, tol=0.0, run=run, checkpoint_share=1.0,
        validation=0.2, validation_every=1, progress=look,
    )  # fmt: skip
    text = seen[2]
    assert "phase:       training" in text
    assert "next pass:   training: pass 3 of at most 4" in text
    assert re.search(r"time left:   at most \d+ s, unless it converges earlier", text)
    assert re.search(r"free energy: -\d", text)
    assert re.search(r"held-out:    -\d", text)
    assert "driver:      at work" in text
    assert "time left" not in seen[-1]
    assert "phase:       done" in seen[-1]


def test_status_and_resume_need_a_run(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "resume"):
        assert "holds no run" in error_of([command, store], capsys, 2)


@pytest.mark.slow
def test_a_fit_on_a_scheduler_and_a_detached_one_give_the_same_model(
    store: str, model: str, processes: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, run, output = processes.scheduler.address, str(tmp_path / "run"), str(tmp_path / "m.zarr")
    assert main(["fit", store, *SIZES, "--scheduler", address, "--run", run, "--detach", "-q"]) == 0
    assert "the run is on the cluster" in capsys.readouterr().out
    assert main(["status", run, "--follow"]) == 0
    assert main(["resume", run, "--output", output, "-q"]) == 0
    assert parameters(MixtureModel.load(output)) == parameters(MixtureModel.load(model))
    wait_until(lambda: not processes.list_datasets())  # the folder has the result: the cluster need not keep it
    with pytest.raises(KeyError, match="knows no driver of"):
        attach(run, processes)


@pytest.mark.slow
def test_runs_and_models_may_be_in_an_object_store(
    store: str, model: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = f"{bucket}/run", f"{bucket}/model.zarr"
    assert main(["fit", store, *SIZES, "--run", run, "--output", output, "-q"]) == 0
    assert main(["resume", run, "-q"]) == 0
    assert parameters(MixtureModel.load(output)) == parameters(MixtureModel.load(model))
    capsys.readouterr()
    assert main(["status", run, "--follow"]) == 0
    text = capsys.readouterr().out
    assert "phase:       done" in text
    assert "driver:      unknown" in text
    for path, title in ((run, "run in"), (output, "model in")):
        assert main(["inspect", path]) == 0
        assert capsys.readouterr().out.startswith(f"{title} {path}\n")


@pytest.mark.slow
def test_an_interrupt_ends_with_130_and_says_what_is_kept(tmp_path: Path) -> None:
    store = write_store(tmp_path / "images.zarr", images(20_000, (4, 4)), 5000)
    run = str(tmp_path / "run")
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from vmfa_dask.command import main; sys.exit(main())"
    words = ["fit", store, "--n-components", "8", "--n-factors", "2", "--run", run, "--tol", "1e-12", "--n-init", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words, "--max-iter", "1000000", "--checkpoint-share", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(line.startswith("warm-up    0") for line in lines)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (130, ""), err
    assert err.splitlines()[-1].startswith("the fit was interrupted after pass")
    assert f"the run is kept in {run} up to pass" in err
    assert tomllib.loads(read_call(run) or "")["n_components"] == 8
