"""The peak memory of a run is a sum known beforehand: it is compared with the workers' limits before the first task.

May import: nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)

# Share of its limit at which Dask pauses a worker.
_USABLE = 0.8
# Share of the memory that a run leaves free below that for the cache of rows.
_CACHE_SHARE = 0.5


def smallest_limit(workers: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Smallest memory limit of some workers.

    Parameters
    ----------
    workers : mapping of str to mapping
        Facts of the workers by address, as `workers.workers_of` gives them.

    Returns
    -------
    int or None
        Bytes; None where no worker has a limit.
    """
    limits = [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]
    return min(limits) if limits else None


def check_memory(projection: Mapping[str, int], limit: int | None, advise: Callable[[int], str]) -> int:
    """Refuse a run whose tasks do not fit a worker.

    Parameters
    ----------
    projection : mapping of str to int
        Peak bytes of a worker, by what they hold (`projected_bytes`).
    limit : int or None
        Memory limit of a worker in bytes; None is no limit.
    advise : callable
        What to change, in words, for a run that may take so many bytes (`Advice`).

    Returns
    -------
    int
        Bytes that remain for a cache of rows; 0 without a limit.

    Raises
    ------
    MemoryError
        With the projected parts, the limit, and what to change.
    """
    total = sum(projection.values())
    parts = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in projection.items())
    logger.info("projected peak memory of a worker: %.0f MiB (%s)", total / 2**20, parts)
    if limit is None:
        return 0
    usable = int(_USABLE * limit)
    if total > usable:
        raise MemoryError(
            f"a worker would need {total / 2**20:.0f} MiB ({parts}), and Dask pauses it at {_USABLE:.0%} of its limit, "
            f"{limit / 2**20:.0f} MiB; {advise(usable)}. Otherwise give each worker at least "
            f"{math.ceil(total / _USABLE / 2**20)} MiB"
        )
    return int((_USABLE * limit - total) * _CACHE_SHARE)


def room_for_cache(total: int, limit: int | None, name: str) -> int | None:
    """Memory for a cache of rows in a worker that has joined during the run.

    Parameters
    ----------
    total : int
        Peak bytes of the run in a worker, without a cache.
    limit : int or None
        Memory limit of the worker in bytes; None or 0 is no limit.
    name : str
        What the worker is called in messages.

    Returns
    -------
    int or None
        Bytes; None where it has no limit.

    Raises
    ------
    MemoryError
        When not even the tasks of the run fit.
    """
    if not limit:
        return None
    if total > _USABLE * limit:
        raise MemoryError(
            f"{name} has a limit of {limit / 2**20:.0f} MiB, and the run needs {total / 2**20:.0f} MiB there, below "
            f"{_USABLE:.0%} of the limit; give it at least {math.ceil(total / _USABLE / 2**20)} MiB"
        )
    return int((_USABLE * limit - total) * _CACHE_SHARE)
