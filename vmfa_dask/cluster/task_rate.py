"""How many tasks a scheduler of Dask hands out on this machine. May import: distributed, cluster."""

from __future__ import annotations

import time

from vmfa_dask.cluster.opening import local_client

_TASKS = 300


def _nothing(number: int) -> int:
    return number


def seconds_of_task() -> float:
    """Time that a scheduler takes for a task without work, with all messages about it.

    Returns
    -------
    float
        Seconds.
    """
    with local_client() as client:
        client.gather(client.map(_nothing, range(10), pure=False))
        begin = time.perf_counter()
        client.gather(client.map(_nothing, range(_TASKS), pure=False))
        return (time.perf_counter() - begin) / _TASKS
