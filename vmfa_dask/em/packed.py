"""What a model version is evaluated with: derived from the parameters, block by block, and never kept with a run.

May import: values, kernels, runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vmfa_dask.kernels import vector
from vmfa_dask.kernels.arguments import Factorized, PackedParameters, Parameters
from vmfa_dask.kernels.log_joints import LOST
from vmfa_dask.kernels.parameters import factorize, pack
from vmfa_dask.kernels.projections import rows_per_tile
from vmfa_dask.kernels.screening import Marginals
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Centers, ComponentParameters, Float64, Int32, Mixture, NeighborGraph

# Σ t²/σ² exceeds the Mahalanobis distance by about tr(ΛᵀD⁻¹Λ). In float32 the difference of the two carries an error
# of a few 1e-7 of that excess; where this can pass 1e-5 of D, float64 parameters are kept as well, and the kernel takes
# them for the rows that need it.
_LARGEST_EXCESS_PER_FEATURE = 100.0
# Rounding μ/σ to float32 adds about 5e-8 ‖μ/σ‖ to the distance of a row near the mean, which is about D. Where this can
# pass 1e-4 of it (three times its standard deviation), all rows of the component are evaluated in float64.
_LARGEST_SHIFT_PER_FEATURE = 600.0
# Of a packed mixture, beside its two packed forms: as many numbers for each component, whatever D is.
SMALL_ARRAYS = ("precise_slot", "lost", "conditions", "cholesky", "log_norms", "log_weights")
# Components whose parameters are read twice while they are in the cache.
_CACHED_COMPONENTS = 4


@dataclass(frozen=True)
class PackedMixture:
    """Inverse noise, whitened projections and normalisers of one `Mixture` (see `kernels.projections`).

    Parameters
    ----------
    packed : (C, vectors, H + 2, lanes) array
        In the dtype of the mixture.
    packed_precise : (K, vectors, H + 2, lanes) float64 array
        The same for the K components where float32 would cancel.
    precise_slot : (C,) int32 array
        Where a component lies in `packed_precise`, −1 where it does not.
    lost : (C,) float64 array
        The part of Σ t²/σ² below which a distance is taken from there; inf for all distances.
    conditions : (C,) float64 array
        tr(ΛᵀD⁻¹Λ), the most by which Σ t²/σ² exceeds a distance, in units of the distance.
    cholesky : (C, H, H) float64 array
        R of L = RRᵀ.
    log_norms : (C,) float64 array
        log π_c − ½(D log 2π + log|Σ_c|).
    log_weights : (C,) float64 array
        log π_c, −inf for dropped components.
    """

    packed: NDArray[Any]
    packed_precise: Float64
    precise_slot: Int32
    lost: Float64
    conditions: Float64
    cholesky: Float64
    log_norms: Float64
    log_weights: Float64

    @property
    def parameters(self) -> PackedParameters:
        """What kernels take of it. Lengths of tuples are types, so kernels are specialised by H and rows per pass."""
        n_factors = int(self.cholesky.shape[1])
        lanes = vector.lanes_of(self.packed.dtype.itemsize * 8)
        tile = (0,) * rows_per_tile(n_factors) if lanes > 1 else (0,)
        precise = (self.precise_slot, self.lost, self.packed_precise)
        return PackedParameters(self.packed, self.log_norms, *precise, self.cholesky, (0,) * n_factors, tile)


@dataclass(frozen=True)
class Screening:
    """Marginals of a model version on a part of the features.

    Parameters
    ----------
    part : int
        Which of the parts.
    marginals : Marginals
        Of all components.
    """

    part: int
    marginals: Marginals


@dataclass(frozen=True)
class ModelVersion:
    """All that rows are evaluated with in one pass.

    Parameters
    ----------
    mixture : Centers
        Version, weights and means of the mixture.
    packed : PackedMixture
        Its packed form.
    graph : NeighborGraph
        Neighbours g_c of each component; of a version of its own.
    screening : Screening or None
        What candidates are screened with; None where all of them are evaluated on all features.
    """

    mixture: Centers
    packed: PackedMixture
    graph: NeighborGraph
    screening: Screening | None = None


def _packed_shape(n: int, n_factors: int, n_features: int, itemsize: int) -> tuple[int, int, int, int]:
    lanes = vector.lanes_of(itemsize * 8)
    return n, -(-n_features // lanes), n_factors + 2, lanes


def packed_bytes(n_components: int, n_factors: int, n_features: int, itemsize: int) -> int:
    """Size of `PackedMixture.packed`.

    Parameters
    ----------
    n_components, n_factors, n_features : int
        C, H and D.
    itemsize : int
        Bytes of a number.

    Returns
    -------
    int
        Bytes.
    """
    return int(np.prod(_packed_shape(n_components, n_factors, n_features, itemsize))) * itemsize


def empty_packed(
    n_components: int, n_factors: int, n_features: int, dtype: DTypeLike, buffers: BufferPool
) -> NDArray[Any]:
    """Unwritten memory for `PackedMixture.packed`.

    Parameters
    ----------
    n_components, n_factors, n_features : int
        C, H and D.
    dtype : dtype
        Of the mixture.
    buffers : BufferPool
        Where the array comes from.

    Returns
    -------
    (C, vectors, H + 2, lanes) array
    """
    # Written past the caches, for which memory must be aligned: that of a pool is.
    return buffers.empty(_packed_shape(n_components, n_factors, n_features, np.dtype(dtype).itemsize), dtype)


def pack_mixture(mixture: Mixture, cores: Cores, buffers: BufferPool | None = None) -> PackedMixture:
    """The packed form of a mixture, in O(C·D·H²).

    Parameters
    ----------
    mixture : Mixture
        The parameters.
    cores : Cores
        Threads of this process.
    buffers : BufferPool, optional
        Where the arrays come from.

    Returns
    -------
    PackedMixture
    """
    arrays = (mixture.weights, mixture.means, mixture.loadings, mixture.noise_variances)
    return pack_block(ComponentParameters(*arrays), cores, buffers if buffers is not None else BufferPool())


def pack_block(
    parameters: ComponentParameters, cores: Cores, buffers: BufferPool, out: NDArray[Any] | None = None
) -> PackedMixture:
    """The packed form of some components of a mixture.

    Parameters
    ----------
    parameters : ComponentParameters
        Parameters of the B components.
    cores : Cores
        Threads of this process.
    buffers : BufferPool
        Where the arrays come from.
    out : (B, vectors, H + 2, lanes) array, optional
        Memory for the packed form, as `empty_packed` makes it.

    Returns
    -------
    PackedMixture
        Of these components alone.
    """
    c, h, d = parameters.loadings.shape
    dtype, weights = parameters.means.dtype, parameters.weights
    cholesky, log_norms, conditions, shifts = np.empty((c, h, h)), np.empty(c), np.empty(c), np.empty(c)
    arrays = Parameters(parameters.means, parameters.loadings, parameters.noise_variances)
    factorized = Factorized(cholesky, log_norms, conditions, shifts)
    packed = empty_packed(c, h, d, dtype, buffers) if out is None else out
    every = np.arange(c, dtype=np.int32)

    def prepare(start: int, stop: int) -> None:
        for low in range(start, stop, _CACHED_COMPONENTS):
            high = min(low + _CACHED_COMPONENTS, stop)
            factorize(arrays, weights, low, high, factorized)
            pack(arrays, cholesky, every, low, high, packed)

    operations = 2 * d * (h + 1) ** 2
    cores.run(prepare, cores.split(c, operations))
    cancels = conditions > _LARGEST_EXCESS_PER_FEATURE * d
    moves = shifts > _LARGEST_SHIFT_PER_FEATURE * d
    # In float64 the second copy would be the same.
    chosen = np.flatnonzero((cancels | moves) & (dtype == np.float32)).astype(np.int32)
    precise_slot = np.full(c, -1, np.int32)
    precise_slot[chosen] = np.arange(len(chosen))
    packed_precise = empty_packed(len(chosen), h, d, np.float64, buffers)
    cores.run(
        lambda a, b: pack(arrays, cholesky, chosen, a, b, packed_precise), cores.split(len(chosen), operations)
    )
    # Dropped components have weight 0; −∞ keeps them out of every maximum and sum.
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    # Where the mean itself would move, every distance is taken from float64; else only those that cancel.
    lost = np.where(moves, np.inf, LOST)
    return PackedMixture(packed, packed_precise, precise_slot, lost, conditions, cholesky, log_norms, log_weights)


def join_blocks(blocks: Sequence[Mapping[str, NDArray[Any]]], packed: NDArray[Any]) -> PackedMixture:
    """The packed form of a mixture from that of its component blocks.

    Parameters
    ----------
    blocks : sequence of mapping of str to array
        What `PackedMixture` names, but for `packed`, of each component block; copied.
    packed : (C, vectors, H + 2, lanes) array
        Of all components.

    Returns
    -------
    PackedMixture
    """
    joined = {name: np.concatenate([block[name] for block in blocks]) for name in SMALL_ARRAYS}
    joined["packed_precise"], slots = _joined_precise(blocks), joined["precise_slot"]
    first, n_before = 0, 0
    for block in blocks:
        here = slots[first : first + len(block["precise_slot"])]
        here[here >= 0] += n_before
        first, n_before = first + len(here), n_before + len(block["packed_precise"])
    return PackedMixture(packed=packed, **joined)


def _joined_precise(blocks: Sequence[Mapping[str, NDArray[Any]]]) -> NDArray[Any]:
    """Float64 parameters of all blocks; they are as large as the mixture where all components need them."""
    parts = [block["packed_precise"] for block in blocks]
    joined = BufferPool().empty((sum(map(len, parts)), *parts[0].shape[1:]), np.float64)
    return np.concatenate(parts, out=joined)
