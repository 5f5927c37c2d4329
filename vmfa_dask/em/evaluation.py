"""Kernels that take one component after the other, spread over the cores. May import: values, kernels, runtime, em."""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.packed import PackedMixture
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import MomentSums, Regrouped, RowPairs
from vmfa_dask.kernels.factors import expected_rows, factor_means
from vmfa_dask.kernels.log_joints import all_log_joints, log_joints
from vmfa_dask.kernels.moments import component_moments
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, FloatArray, Int32, Int64, Moments

# Rows that stay in the second-level cache while all components pass over them.
_CACHED_BYTES = 256 * 1024


def _operations(packed: PackedMixture) -> int:
    """Arithmetic operations of one joint, about 2·D·(H + 2)."""
    return 2 * int(packed.packed[0].size)


def evaluate_joints(
    rows: Rows, members: Int32, indptr: Int64, packed: PackedMixture, cores: Cores, out_log_joints: Float64
) -> None:
    """Log-joints of every component with the rows that ask for it (see `kernels.log_joints`).

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    members : (J,) int32 array
        Row numbers, grouped by component.
    indptr : (C + 1,) int64 array
        Component c has the rows ``members[indptr[c]:indptr[c + 1]]``.
    packed : PackedMixture
        The mixture.
    cores : Cores
        Threads of this process.
    out_log_joints : (J,) float64 array
        Written: log p(c, x) in the order of `members`.
    """
    # Components differ much in their numbers of rows, so threads get ranges with about as many joints.
    regrouped, parameters = Regrouped(members, indptr), packed.parameters
    cores.run(
        lambda a, b: log_joints(rows, regrouped, a, b, parameters, out_log_joints),
        cores.split_by_work(indptr, _operations(packed)),
    )


def evaluate_all_joints(rows: Rows, packed: PackedMixture, cores: Cores, buffers: BufferPool | None = None) -> Float64:
    """Log-joints of all components with all rows, a cached part of the rows at a time.

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    packed : PackedMixture
        The mixture.
    cores : Cores
        Threads of this process.
    buffers : BufferPool, optional
        Where the result comes from.

    Returns
    -------
    (C, n) float64 array
    """
    parameters, shape = packed.parameters, (len(packed.log_norms), len(rows))
    # Components in rows, so that each of them writes a contiguous stretch.
    joints = np.empty(shape) if buffers is None else buffers.empty(shape, np.float64)
    # Threads divide rows here: every component has all of them. A few rows stay cached while each component passes
    # once; fewer than eight would fill few register tiles.
    few = max(8, _CACHED_BYTES // max(1, rows.shape[1] * rows.itemsize))

    def evaluate(start: int, stop: int) -> None:
        for low in range(start, stop, few):
            all_log_joints(rows, low, min(low + few, stop), parameters, joints)

    cores.run(evaluate, cores.split(len(rows), _operations(packed) * len(packed.log_norms)))
    return joints


def evaluate_factors(rows: Rows, members: Int32, indptr: Int64, packed: PackedMixture, cores: Cores) -> Float64:
    """Factor means of every component for the rows that ask for it (see `kernels.factors.factor_means`).

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    members : (K,) int32 array
        Row numbers, grouped by component.
    indptr : (C + 1,) int64 array
        Component c has the rows ``members[indptr[c]:indptr[c + 1]]``.
    packed : PackedMixture
        The mixture.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (K, H) float64 array
        In the order of `members`.
    """
    regrouped, parameters = Regrouped(members, indptr), packed.parameters
    factors = np.empty((len(members), packed.cholesky.shape[1]))
    cores.run(lambda a, b: factor_means(rows, regrouped, a, b, parameters, factors), cores.split_by_work(indptr))
    return factors


def evaluate_expected_rows(pairs: RowPairs, means: FloatArray, loadings: FloatArray, cores: Cores) -> Float64:
    """Expected rows from the components that count for them (see `kernels.factors.expected_rows`).

    Parameters
    ----------
    pairs : RowPairs
        Components, probabilities and factor means of n rows.
    means : (C, D) array
        Means of the mixture.
    loadings : (C, H, D) array
        Its loadings.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (n, D) float64 array
        Relative to the offset of the mixture.
    """
    rows = np.empty((len(pairs.indptr) - 1, means.shape[1]))
    # Threads divide rows here: each is the sum of a few components, in the order of its pairs.
    cores.run(lambda a, b: expected_rows(pairs, means, loadings, a, b, rows), cores.split(len(rows)))
    return rows


def add_moments(
    rows: Rows,
    members: Int32,
    indptr: Int64,
    components: Int32,
    responsibilities: Float64,
    packed: PackedMixture,
    means: FloatArray,
    cores: Cores,
    n_started: int,
    out_moments: Moments,
) -> None:
    """Moments of B components over their rows (see `kernels.moments.component_moments`).

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    members : (J,) int32 array
        Row numbers, grouped by component.
    indptr : (B + 1,) int64 array
        The b-th component has the rows ``members[indptr[b]:indptr[b + 1]]``.
    components : (B,) int32 array
        Numbers of the components.
    responsibilities : (J,) float64 array
        In the order of `members`.
    packed : PackedMixture
        The mixture.
    means : (C, D) array
        Its means, on which the moments are centred.
    cores : Cores
        Threads of this process.
    n_started : int
        The first ones of the B components, whose sums are added to what `out_moments` holds; others overwrite it.
    out_moments : Moments
        The sums of the B components.
    """
    # Threads divide components, never the rows of one: no sum is shared, and none needs a lock or a second order.
    regrouped, parameters = Regrouped(members, indptr), packed.parameters
    sums = MomentSums(out_moments.counts, out_moments.factor_moments, out_moments.moments)
    cores.run(
        lambda a, b: component_moments(
            rows, regrouped, components, responsibilities, a, b, parameters, means, n_started, sums
        ),
        cores.split_by_work(indptr, _operations(packed)),
    )
