"""Memory is a sum that is known before the run: it is checked against the workers' limits before the first task."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

# Part of a limit at which Dask pauses a worker; above it the rows' cache may not grow.
_USABLE = 0.8
_CACHE_SHARE = 0.5


def smallest_limit(workers: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Smallest memory limit of the workers in bytes; None where no worker has one."""
    limits = [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]
    return min(limits) if limits else None


def check_memory(projection: Mapping[str, int], limit: int | None) -> int:
    """Refuse a run whose tasks do not fit a worker; returns bytes that remain for a cache of rows.

    Parameters
    ----------
    projection : peak bytes of a worker, by what it holds (see `em.plan.projected_bytes`)
    limit : memory limit of a worker in bytes; None is no limit, and no cache

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
    if total > _USABLE * limit:
        raise MemoryError(
            f"a worker would need {total / 2**20:.0f} MiB ({parts}), and Dask pauses it at {_USABLE:.0%} of its limit, "
            f"{limit / 2**20:.0f} MiB; give workers more memory, or lower n_components or n_factors"
        )
    return int((_USABLE * limit - total) * _CACHE_SHARE)
