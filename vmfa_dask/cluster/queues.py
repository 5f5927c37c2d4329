"""Tasks that wait for the cores of their process can go to a worker that has none.

To Dask such a task is at work: with several threads in a worker, it hands over to idle workers only what no thread has
begun. May import: cluster, distributed.
"""

from __future__ import annotations

import threading
from typing import Any

from distributed import Reschedule, TimeoutError, Worker, get_worker
from distributed.utils import sync

from vmfa_dask.cluster.drivers import is_driver

_SECONDS_FOR_ANSWER = 10.0
_asking = threading.Lock()


def go_where_nothing_waits() -> None:
    """Give the task of this thread back to the scheduler where a worker of another process has nothing to do.

    One task at a time asks, and only those that bring nothing with them: results of others would have to travel.

    Raises
    ------
    Reschedule
        For Dask, which places the task anew.
    """
    if not _asking.acquire(blocking=False):
        return
    try:
        worker = get_worker()
        task = worker.state.tasks.get(worker.get_current_task())
        if task is not None and not task.dependencies and _somebody_is_idle(worker):
            raise Reschedule
    finally:
        _asking.release()


def _somebody_is_idle(worker: Worker) -> bool:
    """Whether a running worker of another process has no task."""

    async def ask() -> tuple[dict[str, list[Any]], dict[str, int]]:
        return await worker.scheduler.processing(), await worker.scheduler.ncores_running()

    try:
        tasks, running = sync(worker.loop, ask, callback_timeout=_SECONDS_FOR_ANSWER)
    except (OSError, TimeoutError):  # it is no task's business
        return False
    here = {other.address for other in list(Worker._instances)}
    # Drivers of detached runs leave their threads to other tasks.
    busy = {address for address, keys in tasks.items() if not all(is_driver(key) for key in keys)}
    return bool(set(running) - busy - here)
