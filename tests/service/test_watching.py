"""Detached runs that clients watch: the display and the records are those of a fit that is not detached."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from distributed.client import default_client

import vmfa_dask.service.progress as progress
from tests.clusters import local_cluster
from tests.samples import draw, fixed_passes, make_mixture, write_store
from tests.service.test_detached import wait_until
from tests.service.test_progress import Notebook
from tests.terminals import screen
from vmfa_dask import DetachedRun, attach, fit_distributed
from vmfa_dask.service import watching
from vmfa_dask.store.run_inspection import driver_holds

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS = fixed_passes(6, 3, n_groups=3, max_warmup_iter=2, max_iter=6)
PHASES = ["warm-up: 2 passes in", "training: 6 passes in", "final: 1 pass in"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return write_store(tmp_path / "rows.zarr", ROWS, 100)


@pytest.fixture
def client() -> Iterator[Client]:
    """Of a cluster in this process, so that tests can hold its driver."""
    with local_cluster(1, 2, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


class Held:
    """Stops the driver before it tells of the end of some pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_passes: int) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        ends = watching._Teller.pass_ends

        def pass_ends(teller: Any, state: Any) -> None:
            if len(state.records) == n_passes:
                self.reached.set()
                assert self.go_on.wait(60)
            ends(teller, state)

        monkeypatch.setattr(watching._Teller, "pass_ends", pass_ends)
        monkeypatch.setattr(watching, "_LEAST_SECONDS", 0.0)


def start(store: str, run: Path, client: Client, **options: Any) -> DetachedRun:
    # Of all passes only the first is kept before the end: the others are known from what the driver tells.
    return fit_distributed(
        store, client=client, run=str(run), detach=True, checkpoint_share=1e-9, **{**OPTIONS, **options}
    )


def test_result_shows_the_lines_of_a_fit(
    client: Client, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LEAST_SECONDS", 0.0)
    held = Held(monkeypatch, 5)
    start(store, tmp_path / "run", client)
    assert held.reached.wait(60)
    detached, stream = attach(tmp_path / "run", client), Notebook()
    monkeypatch.setattr(sys, "stderr", stream)
    threading.Timer(0.5, held.go_on.set).start()
    fit = detached.result(timeout=60)
    lines = [line.strip() for line in stream.getvalue().replace("\n", "\r").split("\r")]
    remaining = screen(stream.getvalue())
    assert [line.startswith(phase) for line, phase in zip(remaining, [*PHASES, ""], strict=True)] == [True] * 4
    assert any(line.startswith("training: pass 6 of at most 6, 3/3 groups, gain ") for line in lines)
    assert len(fit.history) == 9


def test_a_pipe_gets_a_line_per_pass_when_asked(
    client: Client, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, 5)
    detached = start(store, tmp_path / "run", client)
    assert held.reached.wait(60)
    with pytest.raises(TimeoutError, match=r"the run goes on"):
        detached.result(timeout=0.2, verbose=1)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    threading.Timer(0.5, held.go_on.set).start()
    fit = detached.result(timeout=60, verbose=1)
    assert stream.getvalue().splitlines() == [record.line() for record in fit.history]


def test_watch_gives_each_pass_once_to_every_watcher(
    client: Client, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, 5)
    runs = [start(store, tmp_path / "run", client), attach(tmp_path / "run", client)]
    assert held.reached.wait(60)
    watched: list[list[int]] = []
    first = runs[0].watch(timeout=60)
    begun = [next(first).iteration for _ in range(4)]
    held.go_on.set()
    watched = [begun + [record.iteration for record in first], [record.iteration for record in runs[1].watch()]]
    assert watched == [list(range(9))] * 2
    runs[0].result(timeout=60)
    assert [record.iteration for record in runs[0].watch()] == list(range(9))  # the folder has them


def test_a_driver_in_this_process_leaves_no_current_client(client: Client, store: str, tmp_path: Path) -> None:
    start(store, tmp_path / "run", client).result(timeout=60)
    with pytest.raises(ValueError, match="No clients found"):
        default_client()


def test_a_driver_ends_with_its_cluster(store: str, tmp_path: Path) -> None:
    """Not half a minute later, when its client has given up the scheduler: the run's folder is free at once."""
    with local_cluster(1, 2, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        detached = start(store, tmp_path / "run", client, max_iter=100_000)
        assert next(detached.watch(timeout=60)).iteration == 0
    wait_until(lambda: driver_holds(str(tmp_path / "run")) is False, seconds=15)
