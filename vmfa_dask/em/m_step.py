"""Merging of statistics and the M-step of one block of components (paper, appendix on the M-step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from vmfa_dask.em.context import RunContext, Step
from vmfa_dask.em.e_step import add_divergences
from vmfa_dask.em.noise import NOISE_MODELS
from vmfa_dask.em.storage import GRAPH, PARAMETERS
from vmfa_dask.kernels.parameters import maximize
from vmfa_dask.kernels.tallies import nearest_components
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Divergences, Float64, Moments, Statistics

# Components whose statistics are summed and maximised together while they are in cache.
_CHUNK_COMPONENTS = 4


@dataclass(frozen=True)
class BlockUpdate(Sized):
    """What an update of a component block reports: rows it holds (Σ N_c), components alive and just dropped.

    `noise` (D,) float64 is Σ N_c σ²_c where the noise variances are shared, else None.
    """

    n_rows: float
    n_alive: int
    dropped: tuple[int, ...]
    noise: Float64 | None = None


def merge_divergences(parts: Sequence[Statistics]) -> Divergences | None:
    """Sum of the tallies in the order of the parts."""
    known = [part.divergences for part in parts if part.divergences is not None]
    return reduce(add_divergences, known) if known else None


def merge(parts: Sequence[Statistics], dtype: str | None = None) -> Statistics:
    """Sum of the statistics of several groups for one component block, in the given order.

    `dtype` is that of the sums over rows, by default that of the first part.

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
        sums = np.empty_like(moments[0].moments, dtype)
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
    old, settings = context.mixture(step.parameters), context.settings
    start, stop = context.plan.component_blocks[block]
    shape = stop - start
    dtype, memory_of = old.means.dtype, context.memory.empty
    means = memory_of((shape, old.n_features), dtype)
    loadings = memory_of((shape, old.n_factors, old.n_features), dtype)
    noise = memory_of((shape, old.n_features), dtype)
    counts = np.empty(shape)
    moments = [part.moments for part in parts if part.moments is not None]
    constrain = NOISE_MODELS[settings.covariance_type, settings.noise]
    lowest, scales = context.lowest_variances(), context.scales()
    floors = constrain.floors(lowest)

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
                floors,
                means[own],
                loadings[own],
                noise[own],
            )
            constrain.apply(noise[own], lowest, scales)

    context.cores.run(chunk, context.cores.split(shape))
    weights = counts / context.plan.n_rows if settings.learn_weights else old.weights[start:stop].copy()
    arrays = {"weights": weights, "means": means, "loadings": loadings}
    if not constrain.shared:
        arrays["noise_variances"] = noise
    context.storage.write(PARAMETERS, step.parameters + 1, block, arrays)
    dropped = np.flatnonzero((weights <= 0) & (old.weights[start:stop] > 0)) + start
    total = counts @ noise if constrain.shared else None
    return BlockUpdate(float(counts.sum()), int(np.count_nonzero(counts > 0)), tuple(dropped.tolist()), total)


def update_shared_noise(context: RunContext, step: Step, updates: Sequence[BlockUpdate]) -> None:
    """σ² of all components, Σ_c N_c σ²_c / N: writes the last block of version ``step.parameters + 1``."""
    total = sum_in_order([update.noise for update in updates if update.noise is not None])
    noise = np.maximum(total / sum(update.n_rows for update in updates), context.lowest_variances())
    context.storage.write(
        PARAMETERS,
        step.parameters + 1,
        len(context.plan.component_blocks),
        {"noise_variances": noise.astype(context.settings.precision)},
    )


def update_neighbors(context: RunContext, block: int, step: Step, parts: Sequence[Statistics]) -> None:
    """g_c of one component block from the merged tallies: writes version ``step.graph + 1``."""
    start, stop = context.plan.component_blocks[block]
    totals = merge_divergences(parts)
    assert totals is not None
    old = context.graph(step.graph).neighbors[start:stop]
    neighbors = np.empty_like(old)
    nearest_components(totals.indptr, totals.ids, totals.sums, totals.counts, start, old, neighbors)
    context.storage.write(GRAPH, step.graph + 1, block, {"neighbors": neighbors})
