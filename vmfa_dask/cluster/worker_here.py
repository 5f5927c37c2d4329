"""The worker of the calling task, for tasks of rooms that do not import Dask. May import: cluster, distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distributed import get_worker

from vmfa_dask.cluster.leases import watch_leases
from vmfa_dask.cluster.process_workers import note_worker, threads_here


def worker_here() -> tuple[str, int]:
    """Address of the worker of this task, and the threads of its process.

    Returns
    -------
    address : str
        For messages.
    n_threads : int
        Dask threads of all workers of this cluster in this process.
    """
    worker = get_worker()
    note_worker(worker)
    return str(worker.address), threads_here(worker.scheduler.address)


def watch_runs(runs: Callable[[], Sequence[str]], forget: Callable[[str], None], name: str) -> None:
    """Let the worker of this task drop runs whose driver has gone, as `leases.watch_leases` does.

    Parameters
    ----------
    runs : callable
        Gives the names of the runs that this process holds now.
    forget : callable
        Called with the name of each run whose driver has gone.
    name : str
        Of the watch.
    """
    watch_leases(get_worker(), runs, forget, name)
