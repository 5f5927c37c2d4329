"""Sums of statistics: partial results of groups add up, in an order that is part of the result.

May import: values, kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from vmfa_dask.kernels.arguments import Tallies
from vmfa_dask.kernels.tallies import add_tallies
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


def add_divergences(a: Divergences, b: Divergences) -> Divergences:
    """Sum of two tallies of the same components.

    Parameters
    ----------
    a, b : Divergences
        Tallies D̃_cc̃ and N_cc̃ of one component block.

    Returns
    -------
    Divergences
    """
    # Room as if no pair of components were in both; what is not used is cut off by copies, so that it is freed.
    n_entries = len(a.ids) + len(b.ids)
    indptr, ids = np.zeros_like(a.indptr), np.empty(n_entries, np.int32)
    sums, counts = np.empty(n_entries), np.empty(n_entries, np.int64)
    summands = (Tallies(d.indptr, d.ids, d.sums, d.counts) for d in (a, b))
    n = add_tallies(*summands, Tallies(indptr, ids, sums, counts))
    return Divergences(indptr, ids[:n].copy(), sums[:n].copy(), counts[:n].copy())


def merge_divergences(parts: Sequence[Statistics]) -> Divergences | None:
    """Sum of the tallies, in the order of the parts.

    Parameters
    ----------
    parts : sequence of Statistics
        Statistics of one component block.

    Returns
    -------
    Divergences or None
        None where no part has tallies.
    """
    tallied = [part.divergences for part in parts if part.divergences is not None]
    return reduce(add_divergences, tallied) if tallied else None


def merge(parts: Sequence[Statistics], dtype: str | None = None) -> Statistics:
    """Sum of the statistics of several groups for one component block, in the given order.

    Parameters
    ----------
    parts : sequence of Statistics
        Statistics of the same model version and component block.
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
    return Statistics(first.version, first.start, first.stop, total, merge_divergences(parts))
