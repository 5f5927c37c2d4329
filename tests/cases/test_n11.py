"""N11: the stopping rule does not depend on the number of rows, says why it stopped, and is as tight as it is told.

The default tolerance is the paper's, 1e-4 of the free energy per pass. On this data, two broad components that overlap,
that is 5e-3 nats short of the true parameters; 1e-6 closes the gap to a tenth of that.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests.samples import write_store
from vmfa_dask import Mixture, NeighborGraph, Start, fit_local

N = 50_000
COVARIANCES = (np.array([[5.0, 2], [2, 6]]), np.array([[4.0, 2], [2, 3]]))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.random(N) < 0.75
    noise = [rng.normal(size=(N, 2)) @ np.linalg.cholesky(covariance).T for covariance in COVARIANCES]
    return np.where(first[:, None], np.array([2.0, 4.0]) + noise[0], noise[1])


def start(copies: int, rows: np.ndarray) -> Start:
    """The same parameters for one copy of the rows and for several."""
    mixture = Mixture(np.array([0.5, 0.5]), rows[:2].copy(), np.ones((2, 1, 2)), np.full((2, 2), 4.0))
    return Start(mixture, NeighborGraph(np.array([[0, 1], [1, 0]], np.int32)), np.tile([0, 1], (copies * N, 1)))


def test_twice_the_rows_stop_at_the_same_pass(
    rows: np.ndarray, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"n_components": 2, "n_factors": 1, "precision": "float64", "truncation": 2}
    fits = []
    for copies in (1, 2):
        store = write_store(tmp_path / f"rows-{copies}.zarr", np.tile(rows, (copies, 1)), N // 10)
        with caplog.at_level(logging.INFO, logger="vmfa_dask"):
            fits.append(fit_local(store, start=start(copies, rows), **options))
    once, twice = fits
    assert once.converged
    assert twice.converged
    assert abs(len(once.history) - len(twice.history)) <= 1
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_allclose(getattr(once.model, name), getattr(twice.model, name), rtol=1e-4)
    reasons = [record.getMessage() for record in caplog.records if "converged" in record.getMessage()]
    assert len(reasons) == 2
    assert "gain of the free energy fell below tol=0.0005" in reasons[0]


def test_a_smaller_tolerance_reaches_the_true_parameters(rows: np.ndarray) -> None:
    parts = [
        np.log(weight) + multivariate_normal(mean, covariance).logpdf(rows)
        for weight, mean, covariance in zip((0.75, 0.25), ([2, 4], [0, 0]), COVARIANCES, strict=True)
    ]
    true = float(np.logaddexp(*parts).mean())
    loose = fit_local(rows, n_components=2, n_factors=1)
    tight = fit_local(rows, n_components=2, n_factors=1, tol=1e-6, max_iter=1000)
    assert loose.model.score(rows) > true - 1e-2
    assert tight.model.score(rows) >= true - 1e-3


def test_passes_that_are_used_up_are_told(caplog: pytest.LogCaptureFixture, rows: np.ndarray) -> None:
    with caplog.at_level(logging.INFO, logger="vmfa_dask"):
        fit = fit_local(rows[:2000], n_components=2, n_factors=1, max_iter=3, tol=0.0)
    assert not fit.converged
    assert any("not converged: max_iter=3 passes are done" in record.getMessage() for record in caplog.records)
