"""S03: finite rows never score NaN; what float32 cannot hold is evaluated in float64, or named with the way out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, log_norms, long_distances
from vmfa_dask import Mixture, MixtureModel, Start, fit_local

FILLS = [1e10, 1e20, 9.96921e36, -1e20, 1e43, 1e155, 1e300, np.finfo(np.float64).max]


def model_of(mixture: Mixture) -> MixtureModel:
    return MixtureModel.of(mixture)


def joints_of(mixture: Mixture, rows: np.ndarray) -> np.ndarray:
    """Log-joints (n, C) in 80 bits."""
    dense = Dense.of(mixture)
    return log_norms(dense) - long_distances(dense, rows) / 2


def log_sum(joints: np.ndarray) -> np.ndarray:
    best = joints.max(axis=1)
    return best + np.log(np.exp(joints - best[:, None]).sum(axis=1))


def narrow(mixture: Mixture, condition: float, offset: float = 0.0) -> Mixture:
    """Components whose factors are so large, against the noise, that tr(ΛᵀD⁻¹Λ) is `condition`."""
    loadings = mixture.loadings.astype(np.float64)
    excess = (loadings**2 / mixture.noise_variances[:, None]).sum(axis=(1, 2)) if loadings.size else np.ones(1)
    scale = np.sqrt(condition / excess)[:, None, None] if loadings.size else 1.0
    dtype = mixture.means.dtype
    return Mixture(
        mixture.weights,
        (mixture.means + offset).astype(dtype),
        (loadings * scale).astype(dtype),
        mixture.noise_variances,
    )


def rows_around(mixture: Mixture, distance: float, stored: str, n_rows: int = 40) -> np.ndarray:
    """Rows along the factors of the first component, across them, and of all components, `distance` times as far."""
    rng, h, d = np.random.default_rng(3), mixture.n_factors, mixture.n_features
    factors = distance * rng.normal(size=(n_rows, h)) @ mixture.loadings[0].astype(np.float64)
    noise = rng.normal(size=(n_rows, d)) * np.sqrt(mixture.noise_variances[0])
    along = mixture.means[0] + factors + noise
    across = mixture.means[0] + distance * noise
    center = mixture.means.mean(axis=0)
    between = center + distance * (draw(mixture, n_rows) - center)
    return np.concatenate([along, across, between]).astype(stored)


@pytest.mark.parametrize("stored", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_features", "n_factors"), [(1, 0), (2, 1), (16, 3), (200, 1)])
def test_scores_and_labels_over_conditions_distances_and_offsets(
    n_features: int, n_factors: int, dtype: str, stored: str
) -> None:
    for condition, offset in itertools.product([1.0, 90.0 * n_features, 1e7, 1e11], [0.0, 1e5]):
        if n_factors == 0 and condition > 1:
            continue
        mixture = narrow(make_mixture(3, n_features, n_factors, dtype=dtype), condition, offset)
        model = model_of(mixture)
        for distance in (0.1, 1.0, 30.0, 1e4, 1e10):
            rows = rows_around(mixture, distance, stored)
            joints = joints_of(mixture, rows.astype(np.float64))
            best = joints.max(axis=1)
            far = 2 * (log_norms(Dense.of(mixture)).max() - best).astype(np.float64)
            where = f"{condition=} {offset=} {distance=}"
            tolerance = 1e-4 * np.maximum(far, 0.1 * n_features)
            error = np.abs(model.score_samples(rows) - log_sum(joints).astype(np.float64))
            assert (error <= tolerance).all(), f"{where}: {(error / tolerance).max()}"
            labels = model.predict(rows)
            chosen = np.take_along_axis(joints, labels[:, None], axis=1)[:, 0]
            slack = np.maximum(0.05, 1e-13 * np.abs(best))
            assert (best - chosen <= slack).all(), where


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [0, 2])
@pytest.mark.parametrize("noise", [1e-12, 1e6])
def test_fill_values(dtype: str, n_factors: int, noise: float) -> None:
    """Each value of FILLS in one feature or in all: no NaN, and no other row scores otherwise."""
    mixture = make_mixture(4, 5, n_factors, dtype=dtype)
    variances = (mixture.noise_variances * noise).astype(dtype)
    model = model_of(Mixture(mixture.weights, mixture.means, mixture.loadings, variances))
    clean = draw(model, 50)
    expected = model.score_samples(clean)
    for fill in FILLS:
        for place in (2, slice(None)):
            rows = clean.copy()
            rows[7, place] = fill
            scores = model.score_samples(rows)
            assert scores.argmin() == 7
            np.testing.assert_array_equal(np.delete(scores, 7), np.delete(expected, 7))
            joints = joints_of(model, rows[7:8])
            assert scores[7] == pytest.approx(float(log_sum(joints)[0]), rel=1e-4)
            assert 0 <= model.predict(rows)[7] < 4
            bounds = model.bounds(rows, 2)
            assert not np.isnan([model.score(rows), bounds.free_energy, bounds.upper]).any()
            assert bounds.free_energy <= bounds.score <= bounds.upper
            assert bounds.score == pytest.approx(model.score(rows), rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("condition", [1.0, 450.0, 1e7])
def test_searched_free_energy_of_far_rows(dtype: str, condition: float) -> None:
    mixture = narrow(make_mixture(6, 5, 1, dtype=dtype), condition)
    model, rows, along = model_of(mixture), draw(mixture, 60), mixture.loadings[0, 0].astype(np.float64)
    for fill in (1e3, 1e10, 1e17, *FILLS[1:]):
        rows[7] = rows[9] = 2.0
        rows[7, 2] = fill
        rows[9] += fill * (along / np.abs(along).max())
        found, bounds = model.free_energy(rows, 3), model.bounds(rows, 3)
        assert found <= bounds.free_energy * (1 - 1e-6) or found <= bounds.free_energy + 1e-6
        if np.isfinite(bounds.free_energy) and abs(fill) < 1e150:
            assert found == pytest.approx(bounds.free_energy, rel=1e-4, abs=0.1)
        else:
            assert np.isneginf(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stored", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [0, 1, 3])
def test_the_score_falls_with_the_distance(dtype: str, stored: str, n_factors: int) -> None:
    mixture = narrow(make_mixture(3, 12, n_factors, dtype=dtype), 1e4)
    model, rng = model_of(mixture), np.random.default_rng(0)
    top = 37 if stored == "float32" else 307
    for direction in [*rng.normal(size=(5, 12)), *mixture.loadings[0].astype(np.float64), np.eye(12)[0]]:
        direction = direction / np.abs(direction).max()
        rows = (direction * 10.0 ** np.arange(2, top)[:, None]).astype(stored)
        scores = model.score_samples(rows)
        assert not np.isnan(scores).any()
        finite = np.count_nonzero(np.isfinite(scores))
        assert (np.diff(scores[:finite]) < 0).all()
        assert np.isneginf(scores[finite:]).all()


def test_labels_of_rows_beyond_all_densities() -> None:
    """Wide components own far rows, whatever their weight; −inf for all of them decides nothing."""
    noise = np.array([[1.0, 1.0], [1e4, 1e4], [1.0, 1e6]], np.float32)
    model = MixtureModel(np.array([0.9, 0.09, 0.01]), np.zeros((3, 2), np.float32), np.zeros((3, 0, 2), "f4"), noise)
    for far in (1e18, 1e25, 1e200, 1e300):
        rows = np.array([[far, 0.0], [0.0, far], [far, far]])
        assert model.predict(rows).tolist() == [1, 2, 1]
        assert not np.isnan(model.score_samples(rows)).any()
    assert np.isneginf(model.score_samples(np.full((1, 2), 1e300))).all()


@pytest.mark.parametrize("n_features", [3, 40])
@pytest.mark.parametrize("stored", ["float32", "float64", "int32", "uint8"])
def test_components_far_from_zero_in_their_own_units(stored: str, n_features: int) -> None:
    """Mean / deviation of the data is 50 and a component is a thousandth as wide: rounding μ/σ would move distances."""
    rng, deviation = np.random.default_rng(0), 1.0 if stored.startswith("float") else 4.0
    means = np.full((2, n_features), 50.0 * deviation)
    means[1] += 2 * deviation
    noise = np.full((2, n_features), (1e-3 * deviation) ** 2)
    mixture = Mixture(
        np.full(2, 0.5), means.astype("f4"), np.zeros((2, 1, n_features), "f4"), noise.astype("f4")
    )
    rows = means[0] + 1e-3 * deviation * rng.normal(size=(200, n_features)) * (1 if stored.startswith("float") else 1e3)
    rows = rows.astype(stored)
    known = log_sum(joints_of(mixture, rows.astype(np.float64))).astype(np.float64)
    found = model_of(mixture).score_samples(rows)
    distances = long_distances(Dense.of(mixture), rows.astype(np.float64))[:, 0].astype(np.float64)
    assert (np.abs(found - known) <= 1e-4 * np.maximum(distances, 0.1 * n_features)).all()


def test_components_without_weight_own_no_row() -> None:
    mixture = make_mixture(3, 4, 1)
    model = MixtureModel(np.array([0.0, 0.5, 0.5]), mixture.means, mixture.loadings, mixture.noise_variances)
    rest = MixtureModel(np.full(2, 0.5), mixture.means[1:], mixture.loadings[1:], mixture.noise_variances[1:])
    rows = draw(mixture, 60)
    rows[3], rows[4] = 1e30, 1e300
    np.testing.assert_array_equal(model.score_samples(rows), rest.score_samples(rows))
    np.testing.assert_array_equal(model.predict(rows), rest.predict(rows) + 1)
    assert model.bounds(rows, 3).score == rest.bounds(rows, 2).score


def refused(rows: np.ndarray, **options: Any) -> str:
    with pytest.raises(ValueError, match=r"row \d+") as found:
        fit_local(rows, **{"n_components": 3, "n_factors": 1, "max_iter": 4, "n_groups": 2, **options})
    return str(found.value)


def assert_trains(rows: np.ndarray, **options: Any) -> None:
    fit = fit_local(rows, **{"n_components": 3, "n_factors": 1, "max_iter": 4, "n_groups": 2, **options})
    assert np.isfinite([record.free_energy for record in fit.history]).all()
    for name in ("means", "loadings", "noise_variances"):
        assert np.isfinite(getattr(fit.model, name)).all()
    assert not np.isnan(fit.model.score_samples(rows)).any()


STARTS: list[Callable[[Mixture], dict[str, Any]]] = [
    lambda mixture: {},
    lambda mixture: {"init_params": "uniform"},
    lambda mixture: {"init_params": "noise"},
    lambda mixture: {"init_params": "k-means++"},
    lambda mixture: {"init_params": "k-means+fa"},
    lambda mixture: {"standardize": True},
    lambda mixture: {"start": mixture},
    lambda mixture: {"start": Start(mixture), "search": "exhaustive"},
]
STARTS_IDS = ["afkmc2", "uniform", "noise", "k-means++", "k-means+fa", "standardize", "start", "exhaustive start"]


@pytest.mark.parametrize("start", STARTS, ids=STARTS_IDS)
def test_a_row_beyond_float32_is_named_in_a_fit(start: Callable[[Mixture], dict[str, Any]]) -> None:
    """In every way to begin, in float32 and float64 rows; float64 trains it."""
    mixture = make_mixture(3, 4, 1, dtype="float32")
    options = start(mixture)
    for fill, stored in ((1e20, "float32"), (-3e38, "float32"), (1e43, "float64")):
        rows = draw(mixture, 1000, dtype=stored)
        rows[777, 2] = fill
        message = refused(rows, **options)
        assert f"row 777, feature 2: found {float(rows[777, 2]):g}" in message
        assert "use precision='float64'" in message
        assert_trains(rows, precision="float64", **options)


def test_values_beyond_float64_are_named() -> None:
    rows = draw(make_mixture(3, 4, 1), 500)
    for fill in (1e151, -1e200, np.finfo(np.float64).max):
        rows[333, 1] = fill
        for precision in ("float32", "float64"):
            message = refused(rows, precision=precision)
            assert f"row 333, feature 1: found {fill:g}" in message
            assert "precision='float64'," not in message.split(";")[-1]
            assert "leave the row out" in message
    rows[:250, 1], rows[250:, 1] = 0.0, 1e19  # each group alone is within the range
    assert "feature 1: found 1e+19" in refused(rows)
    assert_trains(rows, precision="float64")


def test_columns_in_large_units() -> None:
    rng = np.random.default_rng(0)
    rows = draw(make_mixture(3, 4, 1), 600)
    rows[:, 1] = 1e43 * rng.normal(size=600)
    message = refused(rows)
    assert ", feature 1: found " in message
    assert "use precision='float64'" in message
    assert_trains(rows, precision="float64")
    rows[:, 1] = 1e43  # a constant is an offset
    assert_trains(rows)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_far_rows_within_the_range_are_trained(precision: str) -> None:
    for fill in (1e4, 1e8, 1e12, 1e15):
        for n_factors, components in ((0, 1), (1, 3)):
            rows = draw(make_mixture(3, 4, 1), 400)
            rows[7, 2] = fill
            assert_trains(rows, precision=precision, n_factors=n_factors, n_components=components)
