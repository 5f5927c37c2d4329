"""Merging of statistics and the M-step of one block of components (paper, appendix on the M-step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from vmfa_dask.em.context import RunContext, Step
from vmfa_dask.em.e_step import add_divergences
from vmfa_dask.em.storage import GRAPH, PARAMETERS
from vmfa_dask.kernels.parameters import maximize
from vmfa_dask.kernels.tallies import nearest_components
from vmfa_dask.values import Divergences, Moments, Statistics

# Components whose statistics are summed and maximised together while they are in cache.
_CHUNK_COMPONENTS = 4


@dataclass(frozen=True)
class BlockUpdate:
    """What an update of a component block reports: rows it holds (Σ N_c), components alive and just dropped."""

    n_rows: float
    n_alive: int
    dropped: tuple[int, ...]


def merge_divergences(parts: Sequence[Statistics]) -> Divergences | None:
    """Sum of the tallies in the order of the parts."""
    known = [part.divergences for part in parts if part.divergences is not None]
    return reduce(add_divergences, known) if known else None


def merge(parts: Sequence[Statistics]) -> Statistics:
    """Sum of the statistics of several groups for one component block, in the given order.

    Raises
    ------
    ValueError
        When parts belong to different model versions or blocks.
    """
    first = parts[0]
    for part in parts:
        if (part.version, part.start, part.stop) != (first.version, first.start, first.stop):
            raise ValueError(
                f"merge: statistics of version {part.version}, components {part.start}:{part.stop} do not "
                f"belong to version {first.version}, components {first.start}:{first.stop}"
            )
    total = None
    if first.moments is not None:
        moments = [part.moments for part in parts if part.moments is not None]
        sums = np.empty_like(moments[0].moments)
        memory = np.empty((_CHUNK_COMPONENTS, *sums.shape[1:]))
        for low in range(0, len(sums), _CHUNK_COMPONENTS):
            own = slice(low, low + _CHUNK_COMPONENTS)
            sums[own] = sum_in_order([m.moments[own] for m in moments], memory)
        counts, factor_moments = (sum_in_order([getattr(m, k) for m in moments]) for k in ("counts", "factor_moments"))
        total = Moments(counts, factor_moments, sums)
    return Statistics(first.version, first.start, first.stop, total, merge_divergences(parts))


def sum_in_order(arrays: Sequence[np.ndarray], out: np.ndarray | None = None) -> np.ndarray:
    """``((a + b) + c) + …`` in float64; `out`, if given, is memory for it."""
    total = np.empty(arrays[0].shape) if out is None else out[: len(arrays[0])]
    np.copyto(total, arrays[0])
    for array in arrays[1:]:
        total += array
    return total


def update_parameters(context: RunContext, block: int, step: Step, parts: Sequence[Statistics]) -> BlockUpdate:
    """M-step of one component block: writes version ``step.parameters + 1`` of its parameters."""
    old = context.mixture(step.parameters)
    start, stop = context.plan.component_blocks[block]
    shape = stop - start
    means = np.empty((shape, old.n_features), old.means.dtype)
    loadings = np.empty((shape, old.n_factors, old.n_features), old.means.dtype)
    noise = np.empty_like(means)
    counts = np.empty(shape)
    moments = [part.moments for part in parts if part.moments is not None]

    def chunk(a: int, b: int) -> None:
        # Dask's workers give memory back at once, so that each large temporary array would fault its pages in anew.
        memory = np.empty((_CHUNK_COMPONENTS, old.n_factors + 2, old.n_features))
        for low in range(a, b, _CHUNK_COMPONENTS):
            own = slice(low, min(low + _CHUNK_COMPONENTS, b))
            whole = slice(start + own.start, start + own.stop)
            counts[own] = sum_in_order([m.counts[own] for m in moments])
            maximize(
                counts[own],
                sum_in_order([m.factor_moments[own] for m in moments]),
                sum_in_order([m.moments[own] for m in moments], memory),
                old.means[whole],
                old.loadings[whole],
                old.noise_variances[whole],
                context.settings.reg_covar,
                means[own],
                loadings[own],
                noise[own],
            )

    context.cores.run(chunk, context.cores.split(shape))
    context.storage.write(
        PARAMETERS,
        step.parameters + 1,
        block,
        {"weights": counts / context.plan.n_rows, "means": means, "loadings": loadings, "noise_variances": noise},
    )
    dropped = np.flatnonzero((counts <= 0) & (old.weights[start:stop] > 0)) + start
    return BlockUpdate(float(counts.sum()), int(np.count_nonzero(counts > 0)), tuple(dropped.tolist()))


def update_neighbors(context: RunContext, block: int, step: Step, parts: Sequence[Statistics]) -> None:
    """g_c of one component block from the merged tallies: writes version ``step.graph + 1``."""
    start, stop = context.plan.component_blocks[block]
    totals = merge_divergences(parts)
    assert totals is not None
    old = context.graph(step.graph).neighbors[start:stop]
    neighbors = np.empty_like(old)
    nearest_components(totals.indptr, totals.ids, totals.sums, totals.counts, start, old, neighbors)
    context.storage.write(GRAPH, step.graph + 1, block, {"neighbors": neighbors})
