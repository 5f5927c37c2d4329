"""Moments of features and distances to one row, also where a large offset breaks the naive formulas."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.kernels.survey import feature_moments, squared_distances


@pytest.mark.parametrize(
    ("stored", "offset", "rounding"),
    [("float32", 0, 1e-12), ("float32", 1e6, 1e-12), ("float64", 1e9, 1e-7), ("uint8", 100, 1e-12)],
)
def test_feature_moments(stored: str, offset: float, rounding: float) -> None:
    rng = np.random.default_rng(0)
    rows = (offset + rng.integers(-64, 64, (500, 7)) / (1 if stored == "uint8" else 16)).astype(stored)
    means, squares = np.full(7, np.nan), np.full(7, np.nan)
    for a, b in ((0, 3), (3, 7)):
        feature_moments(rows, a, b, means, squares)
    exact = rows.astype(np.float64) - offset
    np.testing.assert_allclose(means, exact.mean(axis=0) + offset, rtol=1e-14)
    np.testing.assert_allclose(squares, np.square(exact - exact.mean(axis=0)).sum(axis=0), rtol=rounding)


def test_constant_features_have_exactly_no_variance() -> None:
    rows = np.tile(np.array([0.1, 1e8, -3.7], np.float32), (77, 1))
    means, squares = np.empty(3), np.empty(3)
    feature_moments(rows, 0, 3, means, squares)
    np.testing.assert_array_equal(means, rows[0])
    np.testing.assert_array_equal(squares, 0)


@pytest.mark.parametrize("stored", ["uint8", "float32", "float64"])
def test_squared_distances(stored: str) -> None:
    rows = np.random.default_rng(1).integers(0, 255, (40, 33)).astype(stored)
    center, scales = rows[5].astype(np.float64), np.geomspace(0.01, 100, 33)
    distances = np.full(40, np.nan)
    for a, b in ((0, 11), (11, 40)):
        squared_distances(rows, center, scales, a, b, distances)
    exact = np.square((rows.astype(np.float64) - center) / scales).sum(axis=1)
    np.testing.assert_allclose(distances, exact, rtol=1e-13)
    assert distances[5] == 0
