"""However a driver ends, worker processes give back what they keep for its run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client

from tests.cluster import lease_driver
from tests.clusters import local_cluster
from tests.samples import write_store
from vmfa_dask import fit_distributed

DRIVER, ROOT = lease_driver.__file__, Path(__file__).parents[2]
ROWS_BYTES = 64 * 2**20


def runs_in_workers(client: Client) -> int:
    def count() -> int:
        from vmfa_dask.cluster.worker_context import _contexts

        return len(_contexts)

    return sum(client.run(count).values())


def resident_bytes(client: Client) -> int:
    return sum(client.run(lambda: psutil.Process().memory_info().rss).values())


def wait_until(condition: Callable[[], Any], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def quick_looks(client: Client) -> None:
    def install() -> None:
        from vmfa_dask.cluster import leases

        leases.SECONDS_BETWEEN_LOOKS = 0.3

    client.run(install)


def kill_a_driver(client: Client, store: str, mark: Path) -> None:
    """Kill one in the middle of its run, without a chance to tidy up."""
    command = [sys.executable, DRIVER, client.scheduler.address, store, str(mark)]
    driver = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: mark.exists() or driver.poll() is not None)
        assert driver.poll() is None
        assert runs_in_workers(client) >= 1
    finally:
        driver.kill()
        driver.wait()


@pytest.mark.long
def test_killed_drivers_leave_no_memory_in_workers(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(ROWS_BYTES // 4 // 256, 256)).astype(np.float32)
    store = write_store(tmp_path / "rows.zarr", rows, len(rows) // 8)
    n_drivers = int(os.environ.get("VMFA_KILLED_DRIVERS", "2"))
    with local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        quick_looks(client)
        kill_a_driver(client, store, tmp_path / "mark")  # what is loaded and compiled stays
        wait_until(lambda: runs_in_workers(client) == 0)
        before = resident_bytes(client)
        for k in range(n_drivers):
            kill_a_driver(client, store, tmp_path / f"mark-{k}")
            wait_until(lambda: runs_in_workers(client) == 0)
        wait_until(lambda: resident_bytes(client) - before < 50 * 2**20, 10)
        wait_until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_its_context() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    held = []

    def look(record: object) -> None:
        time.sleep(0.5)
        held.append(runs_in_workers(client))

    with local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        quick_looks(client)
        options: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 2, "tol": 0.0}
        fit_distributed(rows, client=client, init_params="uniform", max_warmup_iter=1, progress=look, **options)
        assert set(held) == {1}
        assert runs_in_workers(client) == 0
