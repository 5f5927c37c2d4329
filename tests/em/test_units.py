"""Spread and recorded steps of features: additive, and proportional to the feature."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.kernels import survey
from vmfa_dask.seeding.survey import Survey


def surveyed(rows: np.ndarray) -> Survey:
    d = rows.shape[1]
    means, squares, extremes = np.empty(d), np.empty(d), np.empty((4, d))
    survey.feature_moments(rows, 0, d, means, squares)
    survey.extremes(rows, 0, d, extremes)
    return Survey(len(rows), means, squares, extremes)


def table(seed: int = 0) -> np.ndarray:
    """Continuous, whole numbers, a rare count, a constant, two values."""
    rng = np.random.default_rng(seed)
    rare = np.zeros(60)
    rare[[7, 20]] = 3, 2
    columns = [rng.normal(size=60), rng.integers(0, 17, 60), rare, np.full(60, 5.0), rng.integers(0, 2, 60)]
    return np.column_stack(columns)


@pytest.mark.parametrize("cut", [1, 8, 21, 59])
def test_parts_add_up(cut: int) -> None:
    rows = table()
    whole, parts = surveyed(rows), surveyed(rows[:cut]) + surveyed(rows[cut:])
    np.testing.assert_array_equal(parts.extremes, whole.extremes)
    np.testing.assert_allclose(parts.variances, rows.var(axis=0), atol=1e-12)
    np.testing.assert_allclose(parts.scales(), whole.scales())


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64"])
def test_extremes_are_the_distinct_ones(dtype: str) -> None:
    rows = np.abs(table() * 3).astype(dtype)
    extremes = surveyed(rows).extremes
    for d in range(rows.shape[1]):
        values = np.unique(rows[:, d])
        second = (values[1], values[-2]) if len(values) > 1 else (np.inf, -np.inf)
        assert extremes[:, d].tolist() == [values[0], *second, values[-1]]


def test_spread_and_steps() -> None:
    rows = table()
    found = surveyed(rows)
    deviations = rows.std(axis=0)
    assert found.steps[1:].tolist() == [1, 1, 0, 1]
    scales = found.scales()
    np.testing.assert_allclose(scales[[0, 1, 4]], np.maximum(deviations, 0.5)[[0, 1, 4]])
    assert scales[2] == max(deviations[2], 0.5)
    others = np.delete(scales, 3)
    assert scales[3] == pytest.approx(np.exp(np.log(others).mean()))
    assert found.floors()[[1, 2, 3, 4]].tolist() == [1e-3, 1e-3, 0, 1e-3]


def test_everything_follows_the_features() -> None:
    rows, factors = table(), np.array([1e-6, 256.0, 1e5, 3.0, 1 / 255])
    plain, scaled = surveyed(rows), surveyed(rows * factors)
    varying = [0, 1, 2, 4]
    np.testing.assert_allclose(scaled.scales()[varying], (plain.scales() * factors)[varying], rtol=1e-9)
    np.testing.assert_allclose(scaled.floors(), plain.floors() * factors**2, rtol=1e-9)


def test_constant_tables_have_a_spread_of_one() -> None:
    assert surveyed(np.full((5, 2), 3.0)).scales().tolist() == [1.0, 1.0]
