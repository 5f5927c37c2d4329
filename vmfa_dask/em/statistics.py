"""Sums of statistics: partial results of groups add up, in an order that is part of the result.

May import: values, runtime, em.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmfa_dask.em.tallies import add_divergences, most_entries
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences, Float64, Int32, Moments, Statistics

# Sums of some components that are made together, and stay in a cache while they are: at least four components.
_CACHED_BYTES = 2**19
_FEWEST_CACHED = 4


def cached_components(n_factors: int, n_features: int) -> int:
    """Components whose statistics are summed together while they are in cache.

    Parameters
    ----------
    n_factors, n_features : int
        H and D.

    Returns
    -------
    int
    """
    return max(_FEWEST_CACHED, _CACHED_BYTES // (8 * (n_factors + 2) * n_features))


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


def sum_moments(parts: Sequence[Moments], low: int, high: int, name: str, out: Float64 | None = None) -> Float64:
    """One of the moments of some components, summed over parts in their order, in float64.

    Parameters
    ----------
    parts : sequence of Moments
        Moments of one component block.
    low, high : int
        Range of components in the block.
    name : {"counts", "factor_moments", "moments"}
        Which of them.
    out : float64 array with at least ``high - low`` entries on its first axis, optional
        Memory for the sum.

    Returns
    -------
    float64 array
        The sum: the first entries of `out`, or a new array.
    """
    if all(part.ids is None for part in parts):
        return sum_in_order([getattr(part, name)[low:high] for part in parts], out)
    shape = (high - low, *getattr(parts[0], name).shape[1:])
    total = np.empty(shape) if out is None else out[: high - low]
    total[...] = 0.0
    for part in parts:
        chosen = part.block(low, high)
        array = getattr(chosen, name)
        if len(array) == high - low:
            total += array
        elif len(array):
            total[chosen.ids] += array
    return total


def _merge_moments(
    parts: Sequence[Moments], n: int, dtype: str | None, cores: Cores, buffers: BufferPool
) -> Moments:
    """Sum of the moments of a block of n components; of those alone that are touched, if they are few in all parts."""
    shape = parts[0].moments.shape[1:]
    ids: Int32 | None = None
    if all(part.ids is not None for part in parts):
        touched = np.zeros(n, bool)
        for part in parts:
            touched[part.ids] = True
        if 2 * np.count_nonzero(touched) < n:
            ids = np.flatnonzero(touched).astype(np.int32)
    n_summed = n if ids is None else len(ids)
    # From the pool: each sum of a level takes the memory of the one before the last.
    sums = buffers.empty((n_summed, *shape), dtype or parts[0].moments.dtype)
    counts, factor_moments = np.empty(n_summed), np.empty((n_summed, *parts[0].factor_moments.shape[1:]))
    total, size = Moments(counts, factor_moments, sums, ids), cached_components(shape[0] - 2, shape[1])

    def merge_range(first: int, last: int) -> None:
        # float64 sums of all components would be twice as large as the result; those of a few stay in the cache.
        scratch = np.empty((size, *shape))
        for low in range(first, last, size):
            high = min(low + size, last)
            cut = total.block(low, high)
            for name in ("counts", "factor_moments", "moments") if len(cut.counts) else ():
                summed = sum_moments(parts, low, high, name, scratch if name == "moments" else None)
                getattr(cut, name)[...] = summed if cut.ids is None else summed[cut.ids]

    cores.run(merge_range, cores.split(n, shape[0] * shape[1] * len(parts)))
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
        total = _merge_moments(moments, first.stop - first.start, dtype, cores, buffers)
    tallied = merge_divergences(parts, n_components, n_neighbors, cores, buffers)
    return Statistics(first.version, first.start, first.stop, total, tallied)
