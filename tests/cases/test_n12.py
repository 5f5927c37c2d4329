"""N12: as many samples as asked for, whatever float32 weights sum to; drawn again they are the same."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask import MixtureModel


def test_a_thousand_weights_in_float32() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(1000, 2.0)).astype(np.float32)
    assert weights.sum(dtype=np.float64) != 1
    means = rng.normal(0, 3, (1000, 8)).astype(np.float32)
    model = MixtureModel(weights, means, np.zeros((1000, 1, 8), np.float32), np.ones((1000, 8), np.float32))
    rows, components = model.sample(999_983)
    again, components_again = model.sample(999_983)
    assert rows.shape == (999_983, 8)
    np.testing.assert_array_equal(rows, again)
    np.testing.assert_array_equal(components, components_again)
    other, _ = model.sample(1000, random_state=1)
    assert not np.any(other == rows[:1000])
    expected = 999_983 * weights.astype(np.float64) / weights.sum(dtype=np.float64)
    counts = np.bincount(components, minlength=1000)
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_score_of_standard_normal_samples() -> None:
    model = MixtureModel(np.ones(1), np.zeros((1, 8)), np.zeros((1, 1, 8)), np.ones((1, 8)))
    assert model.score(model.sample(200_000)[0]) == pytest.approx(-11.3515, abs=0.03)
