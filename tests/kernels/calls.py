"""Kernels called the way the algorithm calls them, on arrays of a test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.packed import PackedMixture, pack_mixture
from vmfa_dask.em.rows import read_only
from vmfa_dask.kernels.arguments import MomentSums, Regrouped
from vmfa_dask.kernels.log_joints import log_joints
from vmfa_dask.kernels.moments import component_moments
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int32, Int64, Mixture, Moments


def grouped(owners: NDArray[Any], rows: NDArray[Any], n_components: int) -> tuple[Int32, Int64]:
    """Regroup pairs of a row and a component by component.

    Parameters
    ----------
    owners, rows : (J,) integers
        Component and row of each pair.
    n_components : int

    Returns
    -------
    members : (J,) int32 array
        Rows, in the order of their components.
    indptr : (C + 1,) int64 array
        Where those of each component begin.
    """
    order = np.argsort(owners, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n_components))])
    return rows[order].astype(np.int32), indptr


def evaluate(mixture: Mixture, rows: NDArray[Any], members: Int32, indptr: Int64, n_threads: int = 1) -> Float64:
    """Log-joints of grouped pairs of rows and components."""
    cores = Cores(n_threads)
    p, rows = pack_mixture(mixture, cores), read_only(rows)
    joints = np.full(len(members), np.nan)
    regrouped, parameters = Regrouped(members, indptr), p.parameters
    cores.run(lambda a, b: log_joints(rows, regrouped, a, b, parameters, joints), cores.split_by_work(indptr))
    return joints


def zeros(n_components: int, n_factors: int, n_features: int, dtype: str = "float64") -> Moments:
    """Accumulators."""
    c, h = n_components, n_factors
    return Moments(np.zeros(c), np.zeros((c, h + 1, h + 1)), np.zeros((c, h + 2, n_features), dtype))


def sum_moments(
    mixture: Mixture,
    rows: NDArray[Any],
    members: Int32,
    indptr: Int64,
    weights: Float64,
    totals: Moments,
    n_threads: int = 1,
    add: bool = True,
) -> PackedMixture:
    """Moments of grouped pairs with responsibilities `weights`, added to `totals` or written over them."""
    cores = Cores(n_threads)
    p, rows = pack_mixture(mixture, cores), read_only(rows)
    regrouped, parameters = Regrouped(members, indptr), p.parameters
    sums = MomentSums(totals.counts, totals.factor_moments, totals.moments)
    components = np.arange(len(totals.counts), dtype=np.int32)
    tail = (parameters, mixture.means, len(components) if add else 0, sums)
    cores.run(
        lambda a, b: component_moments(rows, regrouped, components, weights, a, b, *tail),
        cores.split_by_work(indptr),
    )
    return p
