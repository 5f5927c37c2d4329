"""Runs in a folder: whatever ends them, the same call goes on to the bytes of the undisturbed run."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.kept import as_format_1
from tests.samples import draw, fixed_passes, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local
from vmfa_dask.kernels.processor import this_processor
from vmfa_dask.run import plan

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS = fixed_passes(6, 3, n_groups=3, max_warmup_iter=2)


class Interrupted(Exception):
    """Stands for anything that ends the driver between two passes."""


def stop_after(iteration: int) -> Any:
    """A progress function that ends the run."""

    def progress(record: IterationRecord) -> None:
        if record.iteration == iteration:
            raise Interrupted

    return progress


@pytest.mark.parametrize("search", [{}, {"neighborhood": (4, 2, 2), "search_every": 2}], ids=str)
@pytest.mark.parametrize("iteration", [0, 1, 3, 6])
def test_an_interrupted_run_ends_in_the_same_bytes(tmp_path: Path, iteration: int, search: dict[str, Any]) -> None:
    run, passes, options = str(tmp_path / "run"), [], {**OPTIONS, **search}
    with pytest.raises(Interrupted):
        fit_local(ROWS, **options, max_iter=5, run=run, progress=stop_after(iteration))
    again = fit_local(
        ROWS, **options, max_iter=5, run=run, resume="require", progress=lambda record: passes.append(record.iteration)
    )
    straight = fit_local(ROWS, **options, max_iter=5)
    assert passes == list(range(iteration + 1, 8))  # a pass that was told of is kept
    assert parameters(again.model) == parameters(straight.model)
    assert [r.free_energy for r in again.history] == [r.free_energy for r in straight.history]


def test_a_finished_run_is_extended_as_if_it_had_never_ended(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    fit_local(ROWS, **OPTIONS, max_iter=3, run=run)
    longer, straight = fit_local(ROWS, **OPTIONS, max_iter=6, run=run), fit_local(ROWS, **OPTIONS, max_iter=6)
    assert parameters(longer.model) == parameters(straight.model)
    assert [r.phase for r in longer.history] == [r.phase for r in straight.history]


def test_what_is_not_this_run_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    fit_local(ROWS, **OPTIONS, max_iter=2, run=run)
    with pytest.raises(ValueError, match="settings random_state is 0, this call has 3"):
        fit_local(ROWS, **OPTIONS, max_iter=2, run=run, random_state=3)
    other = ROWS.copy()
    other[0, 0] += 1
    with pytest.raises(ValueError, match="data: rows within 0:1 are not those"):
        fit_local(other, **OPTIONS, max_iter=2, run=run)
    with pytest.raises(FileExistsError, match="resume='never'"):
        fit_local(ROWS, **OPTIONS, max_iter=2, run=run, resume="never")
    with pytest.raises(FileNotFoundError, match="no run is stored there"):
        fit_local(ROWS, **OPTIONS, max_iter=2, run=str(tmp_path / "none"), resume="require")
    with pytest.raises(ValueError, match="expected one of"):
        fit_local(ROWS, **OPTIONS, max_iter=2, run=run, resume="maybe")


def test_runs_of_a_newer_format_and_damaged_versions_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_local(ROWS, **OPTIONS, max_iter=2, run=str(run))
    chunk = next(path for path in (run / "versions" / "parameters").rglob("c/0/0/0") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is damaged"):
        fit_local(ROWS, **OPTIONS, max_iter=3, run=str(run))
    known = json.loads((run / "run.json").read_text())
    known["format"]["version"] = 99
    (run / "run.json").write_text(json.dumps(known))
    with pytest.raises(ValueError, match="format version is 99"):
        fit_local(ROWS, **OPTIONS, max_iter=3, run=str(run))


def kept(tmp_path: Path, **options: Any) -> Path:
    """A run of two passes of training."""
    fit_local(ROWS, **OPTIONS, max_iter=2, run=str(tmp_path / "run"), **options)
    return tmp_path / "run"


def test_a_run_goes_on_with_the_plan_it_was_begun_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kept(tmp_path)
    before = json.loads((run / "run.json").read_text())["plan"]
    monkeypatch.setattr(plan, "TILE_BYTES", 2**14)
    monkeypatch.setattr(plan, "BLOCK_BYTES", 2**15)
    fit = fit_local(ROWS, **{**OPTIONS, "n_groups": None}, max_iter=4, run=str(run))
    monkeypatch.undo()
    assert json.loads((run / "run.json").read_text())["plan"] == before
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS, max_iter=4).model)
    with pytest.raises(ValueError, match=r"has 3 groups, this call asks for 5 \(n_groups=5\)"):
        fit_local(ROWS, **{**OPTIONS, "n_groups": 5}, max_iter=4, run=str(run))


def test_a_setting_that_came_later_counts_when_it_is_chosen(tmp_path: Path) -> None:
    run = kept(tmp_path)
    as_format_1(run, lambda known: known["settings"].pop("chain_length"))
    assert len(fit_local(ROWS, **OPTIONS, max_iter=3, run=str(run)).history) == 6
    with pytest.raises(ValueError, match="settings chain_length is None, this call has 7"):
        fit_local(ROWS, **OPTIONS, max_iter=4, run=str(run), chain_length=7)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("versions/posterior/*/00001", "posterior of version 4, group-00001 is missing; the run is incomplete"),
        ("versions/parameters/*/00000/weights", "the array 'weights' is missing; the file is incomplete"),
        ("versions/graph/*/00000/neighbors/zarr.json", "the array 'neighbors' is missing; the file is incomplete"),
        ("run.json", "run.json is missing beside state.json; the run is damaged"),
    ],
)
def test_what_is_missing_in_a_run_is_named(tmp_path: Path, gone: str, message: str) -> None:
    run = kept(tmp_path)
    (path,) = run.glob(gone)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(ValueError, match=message):
        fit_local(ROWS, **OPTIONS, max_iter=3, run=str(run))


def test_files_of_a_run_are_strict_json(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    run = kept(tmp_path)
    for name in ("run.json", "state.json"):
        json.loads((run / name).read_text(), parse_constant=refuse)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_shares_that_make_no_sense_are_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(ValueError, match="checkpoint_share"):
        kept(tmp_path, checkpoint_share=share)


_DRIVER = """
import sys
from vmfa_dask import fit_local
fit_local(sys.argv[1], n_components=6, n_factors=3, n_groups=3, max_warmup_iter=2, max_iter=400, tol=0.0,
          warmup_tol=0.0, run=sys.argv[2], checkpoint_share=1,
          progress=lambda record: print(record.iteration, flush=True))
"""


@pytest.mark.slow
def test_a_killed_driver_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    store, run = write_store(tmp_path / "rows.zarr", ROWS, 100), str(tmp_path / "run")
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, store, run], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver.stdout as lines:
        for line in lines:
            if int(line) == 5:
                driver.send_signal(signal.SIGKILL)
                break
    assert driver.wait(30) == -signal.SIGKILL
    done = len(json.loads((tmp_path / "run" / "state.json").read_text())["records"])
    assert done >= 5
    again = fit_local(store, **OPTIONS, max_iter=done + 3, run=run, resume="require")
    assert parameters(again.model) == parameters(fit_local(store, **OPTIONS, max_iter=done + 3).model)


@pytest.mark.slow
def test_killed_workers_change_nothing(tmp_path: Path) -> None:
    store = write_store(tmp_path / "rows.zarr", ROWS, 100)
    killed = []
    with (
        local_cluster(3) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def kill_one(record: IterationRecord) -> None:
            if record.iteration in (0, 3, 6):
                worker = list(cluster.workers.values())[record.iteration % 3]
                os.kill(worker.process.pid, signal.SIGKILL)
                killed.append(record.iteration)

        fit = fit_distributed(store, client=client, **OPTIONS, max_iter=6, progress=kill_one)
    assert killed == [0, 3, 6]
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS, max_iter=6).model)


def test_a_run_that_goes_on_with_another_processor_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows, run = draw(make_mixture(3, 6, 1), 300, dtype="float32"), tmp_path / "run"
    fit: Any = partial(fit_local, rows, n_components=3, n_factors=1, run=run, tol=0.0)
    with caplog.at_level(logging.WARNING, logger="vmfa_dask"):
        fit(max_iter=1)
        fit(max_iter=2)
        assert "goes on with" not in caplog.text
        narrow = replace(this_processor(), vector_bits=64)
        monkeypatch.setattr("vmfa_dask.service.fit.this_processor", lambda: narrow)
        fit(max_iter=3)
        assert caplog.text.count("its results may differ in their last bits") == 1
        fit(max_iter=4)
        assert caplog.text.count("goes on with") == 1
