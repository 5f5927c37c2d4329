"""Kernels for rows with missing values: ranges of components and rows write their own part, as plain NumPy has it."""

from __future__ import annotations

import numpy as np

from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, given_observed
from vmfa_dask.kernels.arguments import ObservedRows, Parameters
from vmfa_dask.kernels.observed import expected_rows, observed_log_joints

MIXTURE = make_mixture(4, 6, 3, spread=1.0)
PARAMETERS = Parameters(MIXTURE.means, MIXTURE.loadings, MIXTURE.noise_variances)
# Two patterns of four and two rows; feature 5 is never observed.
PATTERNS = np.array([[1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 1, 0]], bool)
ROWS = draw(MIXTURE, 6)
OBSERVED = PATTERNS[[0, 0, 0, 0, 1, 1]]


def joints(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    rows = ObservedRows(ROWS[:, :5].copy(), PATTERNS[:, :5].astype(np.float64), np.array([0, 4, 6]), np.arange(5))
    out_joints, out_factors = np.full((4, 6), np.nan), np.full((4, 6, 3), np.nan)
    observed_log_joints(rows, PARAMETERS, np.log(MIXTURE.weights), first, last, out_joints, out_factors)
    return out_joints, out_factors


def test_joints_and_factor_means() -> None:
    out_joints, out_factors = joints(0, 4)
    for c in range(4):
        for i, row in enumerate(ROWS):
            o = OBSERVED[i]
            whitened = MIXTURE.loadings[c][:, o] / MIXTURE.noise_variances[c, o]
            inner = np.eye(3) + whitened @ MIXTURE.loadings[c][:, o].T
            factors = np.linalg.solve(inner, whitened @ (row - MIXTURE.means[c])[o])
            np.testing.assert_allclose(out_factors[c, i], factors, rtol=1e-10)
    scores = np.logaddexp.reduce(out_joints, axis=0)
    expected = [given_observed(Dense.of(MIXTURE), row, ~o)[0] for row, o in zip(ROWS, OBSERVED, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-10)


def test_a_range_of_components_writes_its_own_joints() -> None:
    for every, part in zip(joints(0, 4), joints(1, 3), strict=True):
        np.testing.assert_array_equal(part[1:3], every[1:3])
        assert np.isnan(part[[0, 3]]).all()


def test_expected_rows() -> None:
    rng = np.random.default_rng(0)
    responsibilities, factors = rng.dirichlet(np.ones(4), 6).T.copy(), rng.normal(size=(4, 6, 3))
    by_component = MIXTURE.means[:, None] + np.einsum("cnh,chd->cnd", factors, MIXTURE.loadings)
    expected = np.einsum("cn,cnd->nd", responsibilities, by_component)
    out = np.full((6, 6), np.nan)
    expected_rows(responsibilities, factors, PARAMETERS, 2, 5, out)
    np.testing.assert_allclose(out[2:5], expected[2:5], rtol=1e-12)
    assert np.isnan(out[[0, 1, 5]]).all()
