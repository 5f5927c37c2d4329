"""Moments of components against sums over rows, one after the other, with dense factor posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.calls import grouped, sum_moments, zeros
from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, factor_regression
from vmfa_dask.kernels.moments import ROWS_PER_PART
from vmfa_dask.kernels.parameters import add_posterior_covariances
from vmfa_dask.values import Mixture, Moments

ROUNDING = {"float32": 3e-5, "float64": 1e-11}


def by_hand(
    mixture: Mixture, rows: np.ndarray, members: np.ndarray, indptr: np.ndarray, weights: np.ndarray, covariances: bool
) -> Moments:
    """The definition; with `covariances`, E_c holds the factors' posterior covariance as well."""
    dense = Dense.of(mixture)
    c, h, d = dense.loadings.shape
    totals = zeros(c, h, d)
    for k in range(c):
        gain, covariance = factor_regression(dense, k)
        for slot in range(indptr[k], indptr[k + 1]):
            row, q = rows[members[slot]].astype(np.float64), weights[slot]
            t = row - dense.means[k]
            mean = gain @ t
            extended = np.append(mean, 1.0)
            totals.counts[k] += q
            totals.factor_moments[k] += q * np.outer(extended, extended)
            if covariances:
                totals.factor_moments[k, :h, :h] += q * covariance
            totals.moments[k] += q * np.vstack([t * t, t, np.outer(mean, t)])
    return totals


def assert_close(totals: Moments, exact: Moments, rounding: float) -> None:
    for name in ("counts", "factor_moments", "moments"):
        expected = getattr(exact, name)
        scale = np.abs(expected).max(axis=tuple(range(1, expected.ndim)), keepdims=True) + 1e-300
        np.testing.assert_array_less(np.abs(getattr(totals, name) - expected) / scale, rounding, err_msg=name)


@pytest.mark.parametrize(
    ("stored", "precision", "n_factors", "n_features"),
    [
        ("float64", "float64", 0, 7),
        ("uint8", "float32", 3, 67),
        ("int16", "float32", 3, 33),
        ("float32", "float32", 1, 1),
        ("float32", "float32", 3, 64),
        ("uint8", "float32", 5, 21),
        ("float64", "float64", 1, 10),
        ("float64", "float64", 3, 131),
    ],
)
def test_equals_sums_over_rows(stored: str, precision: str, n_factors: int, n_features: int) -> None:
    mixture = make_mixture(4, n_features, n_factors, seed=3, dtype=precision)
    rows = draw(mixture, 2 * ROWS_PER_PART + 50, dtype=stored)
    rng = np.random.default_rng(0)
    # More rows than one part holds, a single row, none, and some.
    owners = np.repeat([0, 1, 3], [2 * ROWS_PER_PART + 9, 1, 40])
    members, indptr = grouped(owners, rng.permutation(np.concatenate([np.arange(len(rows))] * 2))[: len(owners)], 4)
    weights = rng.uniform(0, 1, len(owners))
    totals = zeros(4, n_factors, n_features)
    p = sum_moments(mixture, rows, members, indptr, weights, totals)
    assert_close(totals, by_hand(mixture, rows, members, indptr, weights, covariances=False), ROUNDING[precision])
    add_posterior_covariances(p.cholesky, totals.counts, totals.factor_moments)
    assert_close(totals, by_hand(mixture, rows, members, indptr, weights, covariances=True), ROUNDING[precision])


def test_moments_are_added_to_what_is_there() -> None:
    mixture = make_mixture(3, 11, 3)
    rows = draw(mixture, 60)
    rng = np.random.default_rng(1)
    owners, weights = rng.integers(0, 3, 60), rng.uniform(0, 1, 60)
    members, indptr = grouped(owners, np.arange(60), 3)
    once, twice = zeros(3, 3, 11), zeros(3, 3, 11)
    sum_moments(mixture, rows, members, indptr, weights, once)
    sum_moments(mixture, rows, members, indptr, weights, twice)
    sum_moments(mixture, rows, members, indptr, weights, twice)
    for name in ("counts", "factor_moments", "moments"):
        np.testing.assert_allclose(getattr(twice, name), 2 * getattr(once, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_was_there_is_written_over(dtype: str) -> None:
    mixture = make_mixture(4, 11, 3)
    rows = draw(mixture, 60)
    owners, weights = np.repeat([0, 1, 3], 20), np.random.default_rng(1).uniform(0, 1, 60)
    members, indptr = grouped(owners, np.arange(60), 4)
    summed, written = zeros(4, 3, 11), zeros(4, 3, 11, dtype)
    sum_moments(mixture, rows, members, indptr, weights, summed)
    for name in ("counts", "factor_moments", "moments"):
        getattr(written, name).fill(np.nan)
    sum_moments(mixture, rows, members, indptr, weights, written, add=False)
    for name in ("counts", "factor_moments", "moments"):
        kept = getattr(written, name)
        np.testing.assert_array_equal(kept, getattr(summed, name).astype(kept.dtype), err_msg=name)


def test_ill_conditioned_component_keeps_its_factors() -> None:
    mixture = make_mixture(1, 40, 3, dtype="float32")
    mixture = Mixture(mixture.weights, mixture.means, mixture.loadings, np.full((1, 40), 1e-5, np.float32))
    rows = draw(mixture, 80, dtype="float32")
    members, indptr = grouped(np.zeros(80, int), np.arange(80), 1)
    totals = zeros(1, 3, 40)
    sum_moments(mixture, rows, members, indptr, np.ones(80), totals)
    assert_close(totals, by_hand(mixture, rows, members, indptr, np.ones(80), covariances=False), ROUNDING["float32"])


def test_threads_change_no_bit() -> None:
    mixture = make_mixture(9, 70, 3, dtype="float32")
    rows = draw(mixture, 400, dtype="float32")
    rng = np.random.default_rng(2)
    members, indptr = grouped(rng.integers(0, 9, 1500), rng.integers(0, 400, 1500), 9)
    weights = rng.uniform(0, 1, 1500)
    totals = {n: zeros(9, 3, 70) for n in (1, 2, 5)}
    for n_threads, total in totals.items():
        sum_moments(mixture, rows, members, indptr, weights, total, n_threads)
    for n_threads in (2, 5):
        for name in ("counts", "factor_moments", "moments"):
            np.testing.assert_array_equal(getattr(totals[n_threads], name), getattr(totals[1], name))
