"""Clusters of tests: on loopback, with a limit of memory, and on ports that are free."""

from __future__ import annotations

from typing import Any

from distributed import LocalCluster


def local_cluster(n_workers: int, threads: int = 1, processes: bool = True, **options: Any) -> LocalCluster:
    """Worker processes with nannies, or workers in this process."""
    place = {"host": "127.0.0.1"} if processes else {}
    # Workers in this process share its memory with all that other tests have left there: at 80 % Dask would pause them.
    limits = {"memory_limit": "2 GiB" if processes else "8 GiB", "dashboard_address": "127.0.0.1:0"}
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=threads, processes=processes, **{**place, **limits, **options}
    )
