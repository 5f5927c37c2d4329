"""What kernels take together: named tuples of arrays, which Numba unpacks into registers as it does bare arguments.

The fields have no dtype of their own to Numba: a kernel is compiled for what a call passes, and shapes are not checked.
Kernels unpack a tuple once, at the top: reading a field inside a loop would count references there. Code on disk names
these classes, so they must stay importable from here. Sizes are those of the room's vocabulary. May import: numpy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class Parameters(NamedTuple):
    """Parameters of components as the model has them, read by kernels or written by them.

    Parameters
    ----------
    means : (C, D) float32 or float64
        μ, relative to the offset of the rows.
    loadings : (C, H, D), same dtype
        Λᵀ: each factor's row is contiguous.
    noise_variances : (C, D), same dtype
        σ², positive.
    """

    means: FloatArray
    loadings: FloatArray
    noise_variances: FloatArray


class Factorized(NamedTuple):
    """Numbers per component that follow from its parameters (paper, appendix:EfficientEvaluationMFAs).

    Parameters
    ----------
    cholesky : (C, H, H) float64
        R, lower, of L = I + ΛᵀD⁻¹Λ = RRᵀ.
    log_norms : (C,) float64
        log π − ½(D log 2π + log|Σ|), with log|Σ| = log|L| + Σ log σ²; −∞ for dropped components.
    conditions : (C,) float64
        tr(ΛᵀD⁻¹Λ): how much Σ t²/σ² exceeds the distance it leads to.
    shifts : (C,) float64
        ‖μ/σ‖: what is rounded when μ/σ is.
    """

    cholesky: Float64
    log_norms: Float64
    conditions: Float64
    shifts: Float64


class PackedParameters(NamedTuple):
    """What rows are evaluated with.

    Parameters
    ----------
    packed : (C, vectors, H + 2, lanes) float32 or float64
        Packed parameters (`projections` has the formulas).
    log_norms : (C,) float64
        Log-joints at the means.
    precise_slot : (C,) int32
        Index into `packed_precise` for components that float32 does not serve, else −1.
    lost : (C,) float64
        Part of Σ t²/σ² below which a distance is computed again there; ∞ for every row.
    packed_precise : (P, vectors, H + 2, lanes) float64
        Packed parameters of those components.
    cholesky : (C, H, H) float64
        R, by which projections become factor means.
    factors, tile : tuples of int
        Their lengths are H and the number of rows in a register tile; their values mean nothing.
    """

    packed: FloatArray
    log_norms: Float64
    precise_slot: Int32
    lost: Float64
    packed_precise: Float64
    cholesky: Float64
    factors: tuple[int, ...]
    tile: tuple[int, ...]


class Regrouped(NamedTuple):
    """Pairs of a row and a component, in the order of the components.

    Parameters
    ----------
    members : (J,) int32
        Numbers of the rows.
    indptr : (C + 1,) int64
        Component c owns ``members[indptr[c]:indptr[c + 1]]``.
    """

    members: Int32
    indptr: Int64


class ObservedRows(NamedTuple):
    """Rows with missing values, sorted by which of their features are observed.

    Parameters
    ----------
    values : (n, K) float64
        Rows minus the offset, of the features in `columns`; any finite number where a value is missing.
    observed : (P, K) float64
        Patterns: 1 where a feature is observed, 0 where it is missing.
    indptr : (P + 1,) int64
        Pattern p is that of the rows ``indptr[p]:indptr[p + 1]``.
    columns : (K,) int64
        Features that some row has.
    """

    values: Float64
    observed: Float64
    indptr: Int64
    columns: Int64


class RowPairs(NamedTuple):
    """Pairs of a row and a component that counts for it, in the order of the rows.

    Parameters
    ----------
    indptr : (n + 1,) int64
        Row i has the pairs ``indptr[i]:indptr[i + 1]``, K in all.
    components : (K,) int64
        Component of each pair.
    probabilities : (K,) float64
        p(c|x).
    factors : (K, H) float64
        E[z|c,x].
    """

    indptr: Int64
    components: Int64
    probabilities: Float64
    factors: Float64


class MomentSums(NamedTuple):
    """Sums over the rows of each component that the M-step needs (paper, appendix:Mstep).

    Parameters
    ----------
    counts : (C,) float64
        N_c = Σ q.
    factor_moments : (C, H + 1, H + 1) float64
        Σ q ẑẑᵀ with ẑ = (z, 1); with the covariance of the factors, N_c L⁻¹, it is E_c.
    moments : (C, H + 2, D) float64 or float32
        Σ q t², Σ q t and Σ q z_h t, centred on the means: t = x − μ.
    """

    counts: Float64
    factor_moments: Float64
    moments: FloatArray


class Draws(NamedTuple):
    """The key of a pass's random draws.

    Parameters
    ----------
    seed : int
        Seed of the run.
    iteration : int
        Number of the pass.
    first_row : int
        Global number of row 0 of the row block.
    """

    seed: int
    iteration: int
    first_row: int


class Graph(NamedTuple):
    """What kept components propose (paper, eq:GGnSet).

    Parameters
    ----------
    neighbors : (C, G) int32
        g_c, the component itself in column 0, −1 pads.
    neighborhoods : (C',) int64
        How many entries of its row in `neighbors` the kept component of each rank proposes.
    alive : (C,) bool
        Components that may be proposed.
    """

    neighbors: Int32
    neighborhoods: Int64
    alive: NDArray[np.bool_]


class SearchSpaces(NamedTuple):
    """Candidates S_n of each row of a row block, and their joints.

    Parameters
    ----------
    candidates : (n, S) int32
        The first ``sizes[i]`` entries of row i count.
    sizes : (n,) int32
        Number of candidates of each row.
    slots : (n, S) int32 or int64
        Position of each candidate's joint in `log_joints`.
    log_joints : (J,) float64
        log p(c, x), regrouped by component.
    by_row : (n, S) float64
        The same in the order of `candidates`.
    """

    candidates: Int32
    sizes: Int32
    slots: Int32 | Int64
    log_joints: Float64
    by_row: Float64


class Truncated(NamedTuple):
    """Kept components of each row, and what follows from them (paper, alg:estep, blocks 1 and 4).

    Parameters
    ----------
    components : (n, C') int32
        K_n, −1 where a row has fewer candidates.
    responsibilities : (n, C') float64
        Normalised over the kept ones.
    best : (n,) float64
        Largest log-joint.
    free_energy : (n,) float64
        log Σ_{c in K_n} p(c, x), the row's term of the free energy (eq:FEShort).
    """

    components: Int32
    responsibilities: Float64
    best: Float64
    free_energy: Float64


class Tallies(NamedTuple):
    """Sparse tallies of estimated divergences between components (paper, eq:deltaF).

    Parameters
    ----------
    indptr : (B + 1,) int64
        Component c owns the entries ``indptr[c]:indptr[c + 1]`` of the other arrays.
    ids : (M,) int32
        The other component c̃, ascending within a component.
    sums : (M,) float64
        D̃_cc̃.
    counts : (M,) int64
        N_cc̃.
    """

    indptr: Int64
    ids: Int32
    sums: Float64
    counts: Int64


class Signals(NamedTuple):
    """What estimates rows without their noise from rows with it.

    Parameters
    ----------
    means : (C, D) float32 or float64
        μ, relative to the offset of the rows.
    loadings : (C, H, D), same dtype
        Λᵀ: each factor's row is contiguous.
    filters : (C, H, D), same dtype
        L⁻¹ΛᵀD⁻¹, which turns x − μ into the expected factors (eq:z_gauss_params).
    removed : (C, D), same dtype
        ρ, from 0 to 1: which part of a component's diagonal variance is noise.
    """

    means: FloatArray
    loadings: FloatArray
    filters: FloatArray
    removed: FloatArray
