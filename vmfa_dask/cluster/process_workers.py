"""The Dask workers that live in this process: they share its cores, so that work need not move from one to another.

A process has several where a cluster was made without worker processes. Each is noted here, all of them at the
beginning of a run and late ones by their first task. May import: distributed.
"""

from __future__ import annotations

import threading
import weakref

from distributed import Worker

_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_lock = threading.Lock()


def note_worker(dask_worker: Worker) -> None:
    """Note a worker of this process; ``client.run(note_worker)`` does so for all workers of a cluster.

    Parameters
    ----------
    dask_worker : distributed.Worker
        The worker; Dask passes it by this name.
    """
    with _lock:
        _workers.add(dask_worker)


def addresses_here() -> set[str]:
    """Addresses of the workers of this process that have been noted.

    Returns
    -------
    set of str
        Of all clusters; some may be closed by now.
    """
    with _lock:
        return {worker.address for worker in _workers}


def threads_here(scheduler: str) -> int:
    """Dask threads of all workers in this process: the cores that the user gave it.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler whose workers count.

    Returns
    -------
    int
        At least 1.
    """
    with _lock:
        working = [worker for worker in _workers if worker.status.name in ("running", "paused")]
    return max(1, sum(worker.state.nthreads for worker in working if worker.scheduler.address == scheduler))
