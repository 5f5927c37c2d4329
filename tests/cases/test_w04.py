"""W04: parameters go out in every pass, but never through the task graph, and they do not pile up anywhere."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

from tests.samples import make_mixture, make_start, parameters, write_store
from vmfa_dask import fit_distributed, fit_local

C, D, H, N = 700, 768, 3, 2100
MODEL_BYTES = 4 * C * (D * (H + 2) + 1)
# Dask warns above 10 MB, which is about this model. Tasks of ours are described by some hundred bytes each.
MOST_PER_TASK = "100 kB"
OPTIONS: dict[str, Any] = {
    "n_components": C,
    "n_factors": H,
    "init_params": "uniform",
    "max_warmup_iter": 1,
    "max_iter": 4,
    "tol": 0.0,
    "n_groups": 6,
}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (4 * rng.normal(size=(C, D))[rng.integers(0, C, N)] + rng.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def store(rows: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("w04") / "rows.zarr", rows, N // 20, compressors=None)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers, and a scheduler with a process of its own, so that its memory is the scheduler's alone."""
    with (
        SubprocessCluster(
            n_workers=2,
            threads_per_worker=1,
            worker_kwargs={"memory_limit": "2 GiB"},
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def strict() -> Iterator[None]:
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": MOST_PER_TASK}), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def watch_scheduler(client: Client) -> None:
    """Let the scheduler's process note the most memory it has had since it was asked last."""

    def install(dask_scheduler: Any) -> None:
        import threading
        import time

        import psutil

        process = psutil.Process()

        def watch() -> None:
            while True:
                dask_scheduler.peak = max(dask_scheduler.peak, process.memory_info().rss)
                time.sleep(0.005)

        dask_scheduler.peak = 0
        threading.Thread(target=watch, daemon=True).start()
        time.sleep(0.1)

    client.run_on_scheduler(install)


def take_peak(client: Client) -> int:
    """The most bytes that the scheduler's process has had since the last call."""

    def take(dask_scheduler: Any) -> int:
        peak, dask_scheduler.peak = dask_scheduler.peak, 0
        return peak

    return client.run_on_scheduler(take)


def held_by_workers(client: Client) -> list[tuple[int, int]]:
    """Of each worker: mixtures that are alive, and bytes of results that Dask keeps there.

    Results are released by messages on their way: these get some seconds to arrive.
    """

    def count(dask_worker: Any) -> tuple[int, int]:
        import gc

        from dask.sizeof import sizeof

        from vmfa_dask.cluster.leases import is_lease
        from vmfa_dask.values import Mixture

        size = sum(sizeof(value) for key, value in dict(dask_worker.data).items() if not is_lease(key))
        gc.collect()
        return sum(isinstance(thing, Mixture) for thing in gc.get_objects()), size

    for _ in range(100):
        held = list(client.run(count).values())
        if not any(size for _, size in held):
            break
        time.sleep(0.05)
    return held


@pytest.mark.slow
def test_a_pass_sends_no_parameters_through_the_scheduler(client: Client, store: str, strict: None) -> None:
    fit_distributed(store, client=client, **{**OPTIONS, "max_iter": 0})  # whatever is imported on first use
    watch_scheduler(client)
    before, peaks, held = take_peak(client), [], []

    def look(record: object) -> None:
        peaks.append(take_peak(client))
        held.append(held_by_workers(client))

    fit = fit_distributed(store, client=client, progress=look, **OPTIONS)
    final = take_peak(client)
    assert len(peaks) == len(fit.history) >= 5
    assert max(peaks) - before < MODEL_BYTES / 2
    assert final - before < MODEL_BYTES / 2  # nor does the fitted model
    assert np.max(held, axis=(0, 1))[0] <= 2  # mixtures: the version in work, and the next one
    assert np.max(held, axis=(0, 1))[1] == 0  # statistics of a pass go with the pass


def test_workers_let_go_of_finished_runs(client: Client, store: str, strict: None) -> None:
    for seed in range(2):
        fit_distributed(store, client=client, random_state=seed, **{**OPTIONS, "max_iter": 0})
    assert held_by_workers(client) == [(0, 0), (0, 0)]


@pytest.mark.slow
def test_a_given_start_does_not_go_through_the_graph(client: Client, store: str, strict: None) -> None:
    start = make_start(make_mixture(C, D, H, dtype="float32"), N, 3, 15)
    options = {**OPTIONS, "max_iter": 1}
    fit = fit_distributed(store, client=client, start=start, **options)
    assert parameters(fit.model) == parameters(fit_local(store, start=start, **options).model)
