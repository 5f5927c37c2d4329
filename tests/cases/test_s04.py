"""S04: the units of the data do not matter: constants on features change densities by those constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.samples import draw, images, make_mixture
from vmfa_dask import fit_local

ROWS = draw(make_mixture(6, 7, 2, spread=3.0), 1200)
WAYS: dict[str, dict[str, Any]] = {
    "pilot": {},
    "afkmc2": {"init_params": "afkmc2"},
    "uniform": {"init_params": "uniform"},
    "k-means++": {"init_params": "k-means++"},
    "k-means+fa": {"init_params": "k-means+fa"},
    "noise": {"init_params": "noise"},
    "attempts": {"init_params": "afkmc2", "n_init": 2},
    "diagonal": {"covariance_type": "diagonal"},
    "isotropic": {"covariance_type": "isotropic", "init_params": "afkmc2"},
    "shared": {"noise": "shared"},
    "exhaustive": {"search": "exhaustive"},
}


def fitted(rows: np.ndarray, **options: Any) -> tuple[float, np.ndarray, list[int]]:
    """Score, labels and joints per pass of a fit with defaults."""
    fit = fit_local(rows, **{"n_components": 6, "random_state": 1, **options})
    return fit.model.score(rows), fit.model.predict(rows), [record.n_joints for record in fit.history]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("way", WAYS)
def test_powers_of_two(way: str, precision: str) -> None:
    """They are exact, so every decision of a run is the same."""
    rows = ROWS.astype(precision)
    scales = 2.0 ** np.array([-13, -13, 40, 0, 7, -30, 1])
    options = {**WAYS[way], "precision": precision}
    score, labels, joints = fitted(rows, **options)
    scaled, other_labels, other_joints = fitted((rows * scales).astype(precision), **options)
    assert other_joints == joints
    np.testing.assert_array_equal(other_labels, labels)
    assert scaled == pytest.approx(score - np.log(scales).sum(), abs=1e-9)


@pytest.mark.parametrize("way", ["pilot", "afkmc2", "diagonal"])
def test_constants_that_round(way: str) -> None:
    scales = np.array([0.2, 1e3, 1e-9, 3.7, 1 / 3, 1e9, 7e-5])
    options = {**WAYS[way], "precision": "float64"}
    score, labels, joints = fitted(ROWS, **options)
    scaled, other_labels, other_joints = fitted(ROWS * scales, **options)
    assert len(other_joints) == len(joints)
    np.testing.assert_array_equal(other_labels, labels)
    assert scaled == pytest.approx(score - np.log(scales).sum(), abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("n_components", [6, 60])
def test_grey_levels_and_parts_of_one(n_components: int) -> None:
    """Images in 0..255 and in 0..1, with few components (from a pilot) and many, and with constant pixels."""
    rows = images(1500, (6, 6), seed=3).reshape(1500, -1)
    rows[:, [0, 7]] = 0
    options = {"n_components": n_components, "n_factors": 2}
    score, _, _ = fitted(rows, **options)
    scaled, _, _ = fitted((rows / 255).astype(np.float32), **options)
    assert scaled - 36 * np.log(255) == pytest.approx(score, abs=0.05)


def test_tables_of_different_units_gain_from_it() -> None:
    """The example that was reported: a table whose columns differ in units by five orders of magnitude."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer().data
    rows = np.random.default_rng(0).permutation(data)
    train, test = rows[100:], rows[:100]
    options = {"n_components": 4, "n_factors": 3}
    score = fit_local(train, **options).model.score(test)
    assert score > fit_local(train, preset="paper", **options).model.score(test) + 8


def test_what_float32_cannot_hold_is_named() -> None:
    with pytest.raises(ValueError, match=r"feature 3: .*precision='float64'"):
        fitted(ROWS * np.array([1, 1, 1, 1e-22, 1, 1, 1]))
    scale = np.array([1, 1, 1, 1e-22, 1, 1, 1])
    score, _, _ = fitted(ROWS * scale, precision="float64")
    assert score + np.log(scale).sum() == pytest.approx(fitted(ROWS, precision="float64")[0], abs=1e-6)
