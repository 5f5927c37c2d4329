"""Sums of statistics: partial results of groups add up, in an order that is part of the result.

May import: values, runtime, em.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmfa_dask.em.tallies import add_divergences, most_entries
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences, Moments, Statistics

# Components whose statistics are summed together while they are in cache.
CACHED_COMPONENTS = 4


def sum_in_order(arrays: Sequence[np.ndarray], out: np.ndarray | None = None) -> np.ndarray:
    """``((a + b) + c) + …`` in float64.

    Parameters
    ----------
    arrays : sequence of arrays of one shape (n, ...)
        The summands.
    out : float64 array with at least n entries on its first axis, optional
        Memory for the sum.

    Returns
    -------
    float64 array
        The sum: the first n entries of `out`, or a new array.
    """
    # One order, left to right: another one rounds differently, and the result would depend on which worker came first.
    total = np.empty(arrays[0].shape) if out is None else out[: len(arrays[0])]
    np.copyto(total, arrays[0])
    for array in arrays[1:]:
        total += array
    return total


def merge_divergences(
    parts: Sequence[Statistics], n_components: int, n_neighbors: int, cores: Cores, buffers: BufferPool
) -> Divergences | None:
    """Sum of the tallies, in the order of the parts.

    Parameters
    ----------
    parts : sequence of Statistics
        Statistics of one component block.
    n_components, n_neighbors : int
        C and G, by which the number of entries is bounded.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Returns
    -------
    Divergences or None
        None where no part has tallies.
    """
    tallied = [part.divergences for part in parts if part.divergences is not None]
    if len(tallied) < 2:
        return tallied[0] if tallied else None
    return add_divergences(tallied, n_components, most_entries(n_components, n_neighbors), cores, buffers)


def merge(
    parts: Sequence[Statistics],
    n_components: int,
    n_neighbors: int,
    cores: Cores,
    buffers: BufferPool,
    dtype: str | None = None,
) -> Statistics:
    """Sum of the statistics of several groups for one component block, in the given order.

    Parameters
    ----------
    parts : sequence of Statistics
        Statistics of the same model version and component block.
    n_components, n_neighbors : int
        C and G.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.
    dtype : {"float32", "float64"}, optional
        Dtype of the summed moments; by default that of the first part.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If parts belong to different model versions or component blocks.
    """
    first = parts[0]
    # Moments are centred on the means of their version: those of two versions do not add up.
    for part in parts:
        if (part.version, part.start, part.stop) != (first.version, first.start, first.stop):
            raise ValueError(
                f"merge: statistics of version {part.version}, components {part.start}:{part.stop} do not "
                f"belong to version {first.version}, components {first.start}:{first.stop}"
            )
    total = None
    if first.moments is not None:
        moments = [part.moments for part in parts if part.moments is not None]
        sums = np.empty_like(moments[0].moments, dtype)
        # float64 sums of all components would be twice as large as the result; those of a few stay in the cache.
        scratch = np.empty((CACHED_COMPONENTS, *sums.shape[1:]))
        for low in range(0, len(sums), CACHED_COMPONENTS):
            cached = slice(low, low + CACHED_COMPONENTS)
            sums[cached] = sum_in_order([m.moments[cached] for m in moments], scratch)
        counts, factor_moments = (sum_in_order([getattr(m, k) for m in moments]) for k in ("counts", "factor_moments"))
        total = Moments(counts, factor_moments, sums)
    tallied = merge_divergences(parts, n_components, n_neighbors, cores, buffers)
    return Statistics(first.version, first.start, first.stop, total, tallied)
