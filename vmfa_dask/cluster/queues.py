"""Tasks that wait for the cores of their process can move to a worker that has no task.

To Dask such a task is running: in a worker with several threads, only tasks that no thread has begun move to idle
workers. May import: cluster, distributed.
"""

from __future__ import annotations

import threading
from typing import Any

from distributed import Reschedule, TimeoutError, Worker, get_worker
from distributed.utils import sync

from vmfa_dask.cluster.drivers import is_driver
from vmfa_dask.cluster.process_workers import addresses_here

_SECONDS_FOR_ANSWER = 10.0
_asking = threading.Lock()


def go_where_nothing_waits() -> None:
    """Give the task of this thread back to the scheduler when a worker of another process is idle.

    One task at a time asks, and only tasks without dependencies: results of other tasks would have to travel.

    Raises
    ------
    Reschedule
        To Dask, which assigns the task anew.
    """
    if not _asking.acquire(blocking=False):
        return
    try:
        worker = get_worker()
        task = worker.state.tasks.get(worker.get_current_task())
        if task is not None and not task.dependencies and _another_is_idle(worker):
            raise Reschedule
    finally:
        _asking.release()


def _another_is_idle(worker: Worker) -> bool:
    """Whether a running worker of another process has no task."""

    async def ask() -> tuple[dict[str, list[Any]], dict[str, int]]:
        return await worker.scheduler.processing(), await worker.scheduler.ncores_running()

    try:
        tasks, running = sync(worker.loop, ask, callback_timeout=_SECONDS_FOR_ANSWER)
    except (OSError, TimeoutError):  # a task need not care: the driver finds a lost scheduler
        return False
    # Drivers of detached runs leave their threads to other tasks.
    busy = {address for address, keys in tasks.items() if not all(is_driver(key) for key in keys)}
    return bool(set(running) - busy - addresses_here())
