"""N05: the log-density of a nearly singular covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vmfa_dask import MixtureModel


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-6), ("float32", 1e-2)])
def test_density_at_the_mean(dtype: str, tolerance: float) -> None:
    loading = np.sqrt(2) * np.array([[[4.0, 4.5, 1.0]]])
    model = MixtureModel(np.ones(1), np.zeros((1, 3), dtype), loading.astype(dtype), np.full((1, 3), 7e-8, dtype))
    known = -0.5 * (3 * math.log(2 * math.pi) + 2 * math.log(7e-8) + math.log(7e-8 + 74.5))
    assert known == pytest.approx(11.562555, abs=1e-6)
    assert model.score_samples(np.zeros((1, 3), dtype))[0] == pytest.approx(known, abs=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_density_along_the_loading(dtype: str) -> None:
    # Two standard deviations away in the only direction that is not frozen: the distance is 4, of some 10⁹ in Σ t²/σ².
    loading = np.array([[[4.0, 4.5, 1.0]]])
    model = MixtureModel(np.ones(1), np.zeros((1, 3), dtype), loading.astype(dtype), np.full((1, 3), 2.0**-24, dtype))
    at_mean, away = model.score_samples(np.array([[0.0, 0, 0], [8.0, 9.0, 2.0]], dtype))
    assert at_mean - away == pytest.approx(2.0, abs=1e-2)
