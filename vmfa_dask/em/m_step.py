"""The M-step of one component block: a block of sums in, a block of parameters out (paper, appendix on the M-step).

May import: values, kernels, runtime, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vmfa_dask.em.noise import NoiseModel
from vmfa_dask.em.statistics import cached_components, sum_in_order, sum_moments
from vmfa_dask.kernels.arguments import MomentSums, Parameters, Tallies
from vmfa_dask.kernels.parameters import maximize
from vmfa_dask.kernels.tallies import nearest_components
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import ComponentParameters, Divergences, Float64, FloatArray, Int32, Moments

_OPERATIONS_PER_ENTRY = 10


@dataclass(frozen=True)
class Constraint:
    """What an M-step must respect.

    Parameters
    ----------
    noise : NoiseModel
        What the noise variances have in common.
    lowest : (D,) float64 array
        Smallest noise variances, in squared units of the data.
    scales : (D,) float64 array
        Units of the features, in which isotropic variances are equal.
    learn_weights : bool
        Whether the mixing proportions are updated.
    """

    noise: NoiseModel
    lowest: Float64
    scales: Float64
    learn_weights: bool


@dataclass(frozen=True)
class ParameterBlock:
    """Updated parameters of B components.

    Parameters
    ----------
    counts : (B,) float64 array
        N_c, the rows that each component holds.
    weights : (B,) float64 array
        Mixing proportions π.
    means : (B, D) float32 or float64 array
        μ, relative to the offset of the mixture.
    loadings : (B, H, D) array of the same dtype
        Λ, one row per factor.
    noise_variances : (B, D) array of the same dtype
        σ².
    """

    counts: Float64
    weights: Float64
    means: FloatArray
    loadings: FloatArray
    noise_variances: FloatArray


def maximize_block(
    moments: Sequence[Moments],
    old: ComponentParameters,
    n_rows: int,
    constraint: Constraint,
    cores: Cores,
    buffers: BufferPool,
) -> ParameterBlock:
    """M-step of one component block.

    Parameters
    ----------
    moments : sequence of Moments
        Summands of the moments of the B components; they are added in this order, in float64, a few components at a
        time, so that the sum never leaves the cache.
    old : ComponentParameters
        Parameters of these components, on whose means the moments are centred.
    n_rows : int
        N, the number of training rows.
    constraint : Constraint
        Noise model, floors and whether weights are learned.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Returns
    -------
    ParameterBlock
    """
    n, h, d = old.loadings.shape
    dtype = old.means.dtype
    # From the pool, as they are as large as the model and are made in every pass.
    means, loadings = buffers.empty((n, d), dtype), buffers.empty((n, h, d), dtype)
    noise, counts = buffers.empty((n, d), dtype), np.empty(n)
    floors, size = constraint.noise.floors(constraint.lowest), cached_components(h, d)

    def maximize_range(a: int, b: int) -> None:
        # One array for all sums of this thread: Dask's workers return freed memory to the system at once, so each large
        # temporary array would fault its pages in anew.
        scratch = np.empty((size, h + 2, d))
        for low in range(a, b, size):
            high = min(low + size, b)
            cached = slice(low, high)
            counts[cached] = sum_moments(moments, low, high, "counts")
            # Partial results may be float32; they are added in float64, as the M-step subtracts sums that nearly
            # cancel.
            factor_moments = sum_moments(moments, low, high, "factor_moments")
            sums = MomentSums(
                counts[cached], factor_moments, sum_moments(moments, low, high, "moments", scratch)
            )
            parameters = Parameters(old.means[cached], old.loadings[cached], old.noise_variances[cached])
            updated = Parameters(means[cached], loadings[cached], noise[cached])
            maximize(sums, parameters, floors, updated)
            # While these components are in the cache. What all components share is averaged by a later task.
            constraint.noise.apply(noise[cached], constraint.lowest, constraint.scales)

    cores.run(maximize_range, cores.split(n, 2 * d * (h + 1) ** 2))
    # N, not Σ N_c over all components, which the task of one component block does not know.
    weights = counts / n_rows if constraint.learn_weights else old.weights.copy()
    return ParameterBlock(counts, weights, means, loadings, noise)


def average_noise(sums: Sequence[Float64], n_rows: float, lowest: Float64) -> Float64:
    """Noise variances that all components share, Σ_c N_c σ²_c / N.

    Parameters
    ----------
    sums : sequence of (D,) float64 arrays
        Σ N_c σ²_c of each component block, added in this order.
    n_rows : float
        Σ N_c over all components.
    lowest : (D,) float64 array
        Smallest noise variances.

    Returns
    -------
    (D,) float64 array
    """
    # The floor comes last: M-steps of shared variances run without one (`NoiseModel.floors`), as an average of floored
    # ones would be too large.
    return np.maximum(sum_in_order(sums) / n_rows, lowest)


def nearest_neighbors(divergences: Divergences, start: int, old: Int32, cores: Cores) -> Int32:
    """g_c of one component block: the components with the smallest mean divergence (paper, eq. deltaF).

    Parameters
    ----------
    divergences : Divergences
        Tallies of the B components, summed over all rows.
    start : int
        First component of the block.
    old : (B, G) int32 array
        Neighbours so far, which fill up where too few components were tallied.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (B, G) int32 array
        Column 0 is the component itself, -1 pads.
    """
    neighbors = np.empty_like(old)
    tallies = Tallies(divergences.indptr, divergences.ids, divergences.sums, divergences.counts)
    cores.run(
        lambda a, b: nearest_components(tallies, start, old, a, b, neighbors),
        cores.split_by_work(divergences.indptr, _OPERATIONS_PER_ENTRY),
    )
    return neighbors
