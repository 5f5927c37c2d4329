"""Runs that the client leaves: drivers on the cluster, found again by the folder of the run."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.clusters import local_cluster
from tests.samples import draw, fixed_passes, make_mixture, make_start, parameters, write_store
from vmfa_dask import DetachedRun, RunStopped, attach, fit_distributed, fit_local

ROWS = draw(make_mixture(5, 8, 3), 4000, dtype="float32")
OPTIONS = fixed_passes(6, 3, n_groups=3, max_warmup_iter=2, max_iter=30)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return write_store(tmp_path / "rows.zarr", ROWS, 500)


@pytest.fixture
def own(process_cluster: LocalCluster) -> Iterator[Client]:
    """A client of its own: published drivers, and errors that hold their futures, end with it."""
    with Client(process_cluster, set_as_default=False) as client:
        yield client
        for name in client.list_datasets():
            client.unpublish_dataset(name)


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def start(store: str, run: Path, client: Client, **options: Any) -> DetachedRun:
    return fit_distributed(
        store, client=client, run=str(run), detach=True, checkpoint_share=1, **{**OPTIONS, **options}
    )


@pytest.mark.slow
def test_the_client_leaves_and_another_one_gets_the_model(
    process_cluster: LocalCluster, store: str, tmp_path: Path
) -> None:
    with Client(process_cluster, set_as_default=False) as client:
        assert start(store, tmp_path / "run", client).status in ("pending", "finished")
    with Client(process_cluster, set_as_default=False) as client:
        found = attach(tmp_path / "run", client)
        fit = found.result(timeout=60)
        assert (found.status, [r.iteration for r in found.records()]) == ("finished", list(range(33)))
        assert client.list_datasets() == ()
        assert found.result() is fit
        with pytest.raises(KeyError, match=r"fit_distributed\(\.\.\., run=.*\) goes on with the run"):
            attach(tmp_path / "run", client)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)


def test_a_run_is_driven_once_and_again_when_it_has_ended(own: Client, store: str, tmp_path: Path) -> None:
    first = start(store, tmp_path / "run", own, max_iter=10_000)
    wait_until(first.records)
    with pytest.raises(RuntimeError, match=r"another process is working on this run|a driver is at work"):
        start(store, tmp_path / "run", own, max_iter=10_000)
    first.stop()
    with pytest.raises(RunStopped, match=r"stopped after pass \d+"):
        first.result(timeout=60)
    done = len(first.records())
    assert done > 0
    again = start(store, tmp_path / "run", own, max_iter=done)
    assert len(again.result(timeout=60).history) == done + 3


@pytest.mark.long
def test_a_driver_that_is_killed_starts_elsewhere_and_goes_on(store: str, tmp_path: Path) -> None:
    with (
        local_cluster(2) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        detached = start(store, tmp_path / "run", client, max_iter=100)
        wait_until(lambda: len(detached.records()) > 5)
        (address,) = next(where for key, where in client.who_has().items() if "driver" in str(key)) or (None,)
        address = address or next(a for a, keys in client.processing().items() if any("driver" in str(k) for k in keys))
        worker = next(w for w in cluster.workers.values() if w.worker_address == address)
        os.kill(worker.process.pid, signal.SIGKILL)
        fit = detached.result(timeout=120)
    assert parameters(fit.model) == parameters(fit_local(store, **{**OPTIONS, "max_iter": 100}).model)


def test_a_start_that_is_given_is_written_not_sent(own: Client, store: str, tmp_path: Path) -> None:
    given = make_start(make_mixture(6, 8, 3, seed=4), len(ROWS), 3, 5)
    options = {"truncation": 3, "neighborhood": 5, "max_iter": 3, "start": given}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = start(store, tmp_path / "run", own, **options).result(timeout=60)
    assert parameters(fit.model) == parameters(fit_local(store, **{**OPTIONS, **options}).model)


def test_errors_of_the_run_reach_whoever_attaches(own: Client, tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[3000, 2] = np.inf
    start(write_store(tmp_path / "bad.zarr", bad, 500), tmp_path / "run", own)
    with pytest.raises(ValueError, match="found inf"):
        attach(tmp_path / "run", own).result(timeout=60)


def test_what_cannot_be_detached_is_refused(own: Client, store: str, tmp_path: Path) -> None:
    for data, more in ((ROWS, {"run": "x"}), (store, {}), (store, {"run": "x", "progress": print})):
        with pytest.raises(ValueError, match="detach=True: expected run=folder, data in a Zarr store"):
            fit_distributed(data, client=own, detach=True, **OPTIONS, **more)
    with pytest.raises(KeyError, match="knows no driver of"):
        attach(tmp_path / "nothing", own)


def test_a_run_that_is_forgotten_stays_in_its_folder(own: Client, store: str, tmp_path: Path) -> None:
    run = start(store, tmp_path / "run", own, max_iter=10_000)
    wait_until(run.records)
    with pytest.raises(RuntimeError, match=r"its driver is at work; stop\(\) ends it"):
        run.forget()
    run.stop()
    wait_until(lambda: run.status == "error")
    run.forget()
    run.forget()
    assert (run.status, own.list_datasets()) == ("forgotten", ())
    with pytest.raises(RuntimeError, match=r"forgotten; fit_distributed\(\.\.\., run=.* goes on with the run"):
        run.result()
    done = len(run.records())
    assert len(fit_distributed(store, client=own, run=str(tmp_path / "run"), **{**OPTIONS, "max_iter": done}).history)


def test_what_result_has_given_is_gone_from_the_cluster(
    process_cluster: LocalCluster, store: str, tmp_path: Path
) -> None:
    """From every worker and the scheduler, and a client that was opened for it is closed."""
    start(store, tmp_path / "run", process_cluster, max_iter=2)
    found = attach(tmp_path / "run", process_cluster.scheduler_address)
    again = attach(tmp_path / "run", process_cluster.scheduler_address)
    fit = found.result(timeout=60)
    assert found._connection.client.status == "closed"
    assert parameters(again.result().model) == parameters(fit.model)  # who has a handle still gets the result
    with Client(process_cluster, set_as_default=False) as client:

        def drivers(dask_scheduler: Any) -> list[str]:
            return [str(key) for key in dask_scheduler.tasks if "driver" in str(key)]

        assert client.list_datasets() == ()
        wait_until(lambda: not client.run_on_scheduler(drivers))
