"""Linear algebra of components: normalisers, packed parameters and the M-step, against dense definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.calls import grouped, sum_moments, zeros
from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, textbook_m_step
from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import read_only
from vmfa_dask.kernels.arguments import Factorized, MomentSums, Parameters
from vmfa_dask.kernels.parameters import add_posterior_covariances, factorize, maximize
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Mixture, Moments


@pytest.mark.parametrize(
    ("precision", "n_factors", "n_features"),
    [("float32", 0, 7), ("float32", 3, 33), ("float64", 3, 64), ("float64", 1, 1), ("float64", 10, 21)],
)
def test_factorize(precision: str, n_factors: int, n_features: int) -> None:
    mixture = make_mixture(4, n_features, n_factors, dtype=precision)
    dense = Dense.of(mixture)
    cholesky, (log_norms, conditions, shifts) = np.empty((4, n_factors, n_factors)), np.empty((3, 4))
    parameters = Parameters(mixture.means, mixture.loadings, mixture.noise_variances)
    factorize(parameters, mixture.weights, 0, 4, Factorized(cholesky, log_norms, conditions, shifts))
    for c in range(4):
        scaled = dense.loadings[c] / dense.noise_variances[c]
        gram = np.eye(n_factors) + scaled @ dense.loadings[c].T
        np.testing.assert_allclose(cholesky[c], np.linalg.cholesky(gram), rtol=1e-10, atol=1e-10)
        determinant = np.linalg.slogdet(2 * np.pi * dense.covariance(c))[1]
        assert log_norms[c] == pytest.approx(np.log(dense.weights[c]) - 0.5 * determinant, rel=1e-12, abs=1e-10)
        assert conditions[c] == pytest.approx(np.trace(gram) - n_factors, rel=1e-10, abs=1e-12)
        assert shifts[c] == pytest.approx(np.linalg.norm(dense.means[c] / np.sqrt(dense.noise_variances[c])), rel=1e-10)


def test_factorize_survives_loadings_that_swamp_the_noise() -> None:
    loadings, noise = read_only(np.full((1, 3, 8), 2e4)), read_only(np.full((1, 8), 1e-8))
    factorized = Factorized(np.empty((1, 3, 3)), *np.empty((3, 1)))
    factorize(Parameters(loadings[0, :1], loadings, noise), np.ones(1), 0, 1, factorized)
    for array in factorized:
        assert np.isfinite(array).all()


@pytest.mark.parametrize(
    ("precision", "n_factors", "n_features"), [("float32", 3, 37), ("float64", 3, 16), ("float32", 0, 5)]
)
def test_packed_parameters(precision: str, n_factors: int, n_features: int) -> None:
    mixture = make_mixture(6, n_features, n_factors, dtype=precision)
    dense, p = Dense.of(mixture), pack_mixture(mixture, Cores(2))
    lanes = p.packed.shape[3]
    assert p.packed.shape == (6, -(-n_features // lanes), n_factors + 2, lanes)
    assert p.packed.dtype == np.dtype(precision)
    assert p.packed.ctypes.data % 64 == 0
    flat = p.packed.transpose(0, 2, 1, 3).reshape(6, n_factors + 2, -1)
    assert not flat[:, :, n_features:].any()
    rounding = {"float32": 2e-7, "float64": 1e-13}[precision]
    deviations = np.sqrt(dense.noise_variances)
    np.testing.assert_allclose(flat[:, 0, :n_features], -dense.means / deviations, rtol=rounding)
    np.testing.assert_allclose(flat[:, 1, :n_features], 1 / deviations, rtol=rounding)
    for c in range(6):
        whitened = np.linalg.solve(p.cholesky[c], dense.loadings[c] / deviations[c])
        packed = flat[c, 2:, :n_features]
        np.testing.assert_allclose(packed, whitened, rtol=rounding, atol=rounding * np.abs(whitened).max(initial=0))


def statistics(mixture: Mixture, rows: np.ndarray, q: np.ndarray) -> Moments:
    """Moments of rows with responsibilities q (n, C), by the kernels."""
    c, h, d = mixture.loadings.shape
    owners, members = np.repeat(np.arange(c), len(rows)), np.tile(np.arange(len(rows)), c)
    totals = zeros(c, h, d)
    p = sum_moments(mixture, rows, *grouped(owners, members, c), q.T.ravel(), totals)
    add_posterior_covariances(p.cholesky, totals.counts, totals.factor_moments)
    return totals


def maximized(mixture: Mixture, m: Moments, floor: float) -> Mixture:
    parameters = Parameters(mixture.means, mixture.loadings, mixture.noise_variances)
    updated = Parameters(*(np.empty_like(array) for array in parameters))
    sums = MomentSums(m.counts, m.factor_moments, m.moments)
    maximize(sums, parameters, np.full(mixture.n_features, floor), updated)
    return Mixture(m.counts / m.counts.sum(), *updated)


@pytest.mark.parametrize(
    ("precision", "n_factors", "n_features", "rounding"),
    [("float64", 3, 9, 1e-9), ("float64", 1, 5, 1e-9), ("float64", 0, 6, 1e-9), ("float32", 3, 9, 2e-4)],
)
def test_m_step_equals_the_textbook(precision: str, n_factors: int, n_features: int, rounding: float) -> None:
    mixture = make_mixture(3, n_features, n_factors, dtype=precision)
    rows = draw(mixture, 120, dtype=precision)
    q = np.random.default_rng(0).dirichlet(np.ones(3), 120)
    textbook = textbook_m_step(Dense.of(mixture), rows.astype(np.float64), q, 1e-6)
    updated = maximized(mixture, statistics(mixture, rows, q), 1e-6)
    np.testing.assert_allclose(updated.weights, textbook.weights, rtol=1e-12)
    for name in ("means", "loadings", "noise_variances"):
        expected = getattr(textbook, name)
        np.testing.assert_allclose(
            getattr(updated, name), expected, rtol=rounding, atol=rounding * np.abs(expected).max(initial=0)
        )


def test_floor_holds_and_a_component_without_rows_keeps_its_parameters() -> None:
    mixture = make_mixture(2, 6, 3)
    rows = np.tile(draw(mixture, 1), (30, 1))
    q = np.column_stack([np.ones(30), np.zeros(30)])
    updated = maximized(mixture, statistics(mixture, rows, q), 0.125)
    np.testing.assert_array_equal(updated.noise_variances[0], 0.125)
    np.testing.assert_allclose(updated.means[0] + 0.0, rows[0], atol=1e-9)
    for name in ("means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(updated, name)[1], getattr(mixture, name)[1])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_rows", [1, 2, 4])
def test_fewer_rows_than_factors_keep_parameters_in_the_range_of_the_data(precision: str, n_rows: int) -> None:
    """A component that has lost its rows to others: E_c is singular to rounding while its factors are still large."""
    rng = np.random.default_rng(5)
    d, h = 300, 5
    rows = rng.uniform(0, 255, (n_rows, d)).astype(precision)
    mixture = Mixture(
        np.ones(1),
        rng.uniform(0, 255, (1, d)).astype(precision),
        rng.normal(0, 60, (1, h, d)).astype(precision),
        np.full((1, d), 1e-3, precision),
    )
    before = -np.inf
    for _ in range(6):
        mixture = maximized(mixture, statistics(mixture, rows, np.ones((n_rows, 1))), 1e-3)
        dense = Dense.of(mixture)
        assert np.abs(dense.means).max() < 1e4
        assert np.abs(dense.loadings).max() < 1e4
        scores = MixtureModel.of(mixture).score_samples(rows)
        assert scores.mean() > before - 0.05 * abs(before)  # float32 under a noise of 0.03
        before = scores.mean()
    assert before < 0.5 * d * -np.log(2 * np.pi * 1e-3) + 1.0  # the density at the mean of the narrowest component
    assert (MixtureModel.of(mixture).score_samples(rng.uniform(0, 255, (50, d)).astype(precision)) < before).all()
