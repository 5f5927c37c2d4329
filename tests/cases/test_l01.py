"""L01: clusters that have no workers until there is work are made to grow; those that lose all of them come back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array
import pytest
from distributed import Client, LocalCluster

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local
from vmfa_dask.cluster.workers import wait_for_workers, workers_of

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 2, "max_warmup_iter": 1, "max_iter": 3, "tol": 0.0,
}  # fmt: skip


@contextmanager
def scaling(processes: bool, **adapt: Any) -> Iterator[tuple[LocalCluster, Client]]:
    """A cluster that starts empty and follows its load."""
    with (
        local_cluster(0, processes=processes) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        adaptive = cluster.adapt(minimum=0, maximum=2, interval="100ms", **adapt)
        yield cluster, client
        adaptive.stop()


@pytest.mark.parametrize("processes", [False, True], ids=["in this process", "worker processes"])
@pytest.mark.slow
def test_a_cluster_that_is_empty_grows_and_fits(processes: bool, tmp_path: Path) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    with scaling(processes) as (_, client):
        assert not workers_of(client)
        fit = fit_distributed(store, **OPTIONS, client=client, worker_timeout=100)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)


def test_a_cluster_that_is_empty_takes_dask_arrays() -> None:
    with scaling(False) as (_, client):
        fit = fit_distributed(dask.array.from_array(ROWS, chunks=(100, 6)), **OPTIONS, client=client)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_a_cluster_that_somebody_scales_meanwhile() -> None:
    with local_cluster(0, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        cluster.loop.call_later(0.5, cluster.scale, 1)
        fit = fit_distributed(ROWS, **OPTIONS, client=client)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


@pytest.mark.long
def test_workers_that_all_go_during_a_run_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    with scaling(True) as (cluster, client):

        def lose_them(record: IterationRecord) -> None:
            if record.iteration == 1:
                for worker in list(cluster.workers.values()):
                    cluster.sync(worker.close)

        with caplog.at_level(logging.WARNING, "vmfa_dask"):
            fit = fit_distributed(store, **OPTIONS, client=client, progress=lose_them, worker_timeout=100)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)
    assert "lost worker" in caplog.text


@pytest.mark.parametrize("lazy", [False, True], ids=["NumPy", "Dask"])
@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_cluster_that_stays_empty_is_told(timeout: float, lazy: bool) -> None:
    rows = dask.array.from_array(ROWS, chunks=(100, 6)) if lazy else ROWS
    with local_cluster(0, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        with pytest.raises(TimeoutError, match=r"has 0 workers after 0 s; start some, or raise worker_timeout"):
            fit_distributed(rows, **OPTIONS, client=client, worker_timeout=timeout)
        end = time.monotonic() + 30
        while client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)):  # nothing is left behind
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_cluster_with_workers_gets_no_task(in_process: Client) -> None:
    before = in_process.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log))
    assert wait_for_workers(in_process, 10)
    assert in_process.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log)) == before
