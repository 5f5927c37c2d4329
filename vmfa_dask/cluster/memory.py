"""Memory is a sum that is known before the run: it is checked against the workers' limits before the first task."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)

# Part of a limit at which Dask pauses a worker; above it the rows' cache may not grow.
_USABLE = 0.8
_CACHE_SHARE = 0.5


def smallest_limit(workers: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Smallest memory limit of the workers in bytes; None where no worker has one."""
    limits = [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]
    return min(limits) if limits else None


def check_memory(projection: Mapping[str, int], limit: int | None, advise: Callable[[int], str]) -> int:
    """Refuse a run whose tasks do not fit a worker; returns bytes that remain for a cache of rows.

    Parameters
    ----------
    projection : peak bytes of a worker, by what it holds (see `run.projection.projected_bytes`)
    limit : memory limit of a worker in bytes; None is no limit, and no cache
    advise : what to change, in words, for a run that may take so many bytes (see `run.advice.Advice`)

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
    """Bytes for a cache of rows in a worker that has come later; None where it has no limit.

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
