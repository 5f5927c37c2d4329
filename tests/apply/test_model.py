"""Inference against SciPy's normal densities, with every component; what is no row of the model is refused."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from tests.samples import draw, images, make_mixture, parameters, write_store
from tests.twins.mixture import Dense
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.values import Mixture


def log_joints(mixture: Mixture, rows: np.ndarray) -> np.ndarray:
    """(n, C) log-joints by SciPy."""
    dense = Dense.of(mixture)
    with np.errstate(divide="ignore"):
        log_weights = np.log(dense.weights)
    columns = [multivariate_normal(dense.means[c], dense.covariance(c)).logpdf(rows) for c in range(len(log_weights))]
    return np.atleast_2d(np.array(columns).T.reshape(len(rows), -1)) + log_weights


@pytest.mark.parametrize(
    ("dtype", "stored", "n_factors", "rounding"),
    [
        ("float64", "float64", 3, 1e-11),
        ("float32", "float32", 3, 3e-6),
        ("float32", "uint8", 3, 3e-6),
        ("float64", "float64", 1, 1e-11),
        ("float32", "float64", 1, 3e-6),
    ],
)
def test_scores_and_labels(dtype: str, stored: str, n_factors: int, rounding: float) -> None:
    mixture = make_mixture(6, 11, n_factors, dtype=dtype, spread=2.0)
    if stored == "uint8":
        mixture = Mixture(mixture.weights, mixture.means + np.float32(20), mixture.loadings, mixture.noise_variances)
    rows, model = draw(mixture, 5000, dtype=stored), MixtureModel.of(mixture)  # more rows than one block
    joints = log_joints(mixture, rows.astype(np.float64))
    known = logsumexp(joints, axis=1)
    scores = model.score_samples(rows)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, known, rtol=rounding, atol=10 * rounding)
    assert model.score(rows) == pytest.approx(known.mean(), rel=rounding)
    first, second = np.sort(joints, axis=1)[:, :-3:-1].T
    clear = first - second > 1e-3
    np.testing.assert_array_equal(model.predict(rows)[clear], joints.argmax(axis=1)[clear])


def test_offset_is_part_of_the_density() -> None:
    plain = make_mixture(3, 5, 1)
    offset = np.array([1e6, -3, 0, 2.5e5, 7])
    shifted = MixtureModel.of(replace(plain, offset=offset))
    rows = draw(plain, 50)
    np.testing.assert_allclose(
        shifted.score_samples(rows + offset), MixtureModel.of(plain).score_samples(rows), rtol=1e-8
    )
    np.testing.assert_allclose(shifted.component_means, plain.means + offset)
    by_hand = MixtureModel(plain.weights, plain.means + offset, plain.loadings, plain.noise_variances)
    np.testing.assert_allclose(by_hand.score_samples(rows + offset), shifted.score_samples(rows + offset), rtol=1e-8)


def test_images_keep_their_shape() -> None:
    m = make_mixture(3, 12, 3, dtype="float32")
    model = MixtureModel(m.weights, m.means, m.loadings, m.noise_variances, (2, 2, 3))
    rows = images(40, (2, 2, 3))
    assert model.component_means.shape == (3, 2, 2, 3)
    np.testing.assert_array_equal(model.score_samples(rows), model.score_samples(rows.reshape(40, 12)))
    np.testing.assert_array_equal(model.predict(rows), model.predict(rows.reshape(40, 12)))


def test_rows_of_any_layout_score_the_same() -> None:
    model = MixtureModel.of(make_mixture(3, 6, 1))
    rows = draw(model, 100)
    expected = model.score_samples(rows)
    for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], rows.tolist(), rows.astype(">f8")):
        np.testing.assert_array_equal(model.score_samples(other), expected)


def test_scoring_changes_nothing() -> None:
    model = MixtureModel.of(make_mixture(3, 6, 1))
    rows = draw(model, 20)
    before, known = rows.copy(), parameters(model)
    model.score_samples(rows)
    model.predict(rows)
    np.testing.assert_array_equal(rows, before)
    assert parameters(model) == known


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(6), r"reshape\(1, -1\)"),
        (np.zeros((3, 5)), "rows have 5 features, the model has 6"),
        (np.zeros((3, 2, 4)), "rows have 8 features, the model has 6"),
        (np.zeros((3, 6), complex), "complex128"),
        (np.array([["a"] * 6]), "dtype"),
        (np.full((4, 6), np.nan), "row 0, feature 0: found nan, expected a finite number"),
        (np.array([[0.0] * 6, [0, 0, np.inf, 0, 0, 0]]), "row 1, feature 2: found inf, expected a finite number"),
    ],
)
@pytest.mark.parametrize("method", ["score_samples", "predict", "score"])
def test_what_is_no_row_is_refused(x: np.ndarray, message: str, method: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(MixtureModel.of(make_mixture(3, 6, 1)), method)(x)


def test_far_rows_keep_finite_scores() -> None:
    model = MixtureModel(np.ones(1), np.zeros((1, 8)), np.zeros((1, 1, 8)), np.ones((1, 8)))
    assert model.score_samples(np.full((1, 8), 1e4))[0] == pytest.approx(-400000007.35, rel=1e-9)


def test_dropped_components_leave_the_model() -> None:
    m = make_mixture(4, 5, 1)
    model = MixtureModel.of(Mixture(np.array([0.5, 0, 0.25, 0.25]), m.means, m.loadings, m.noise_variances))
    assert model.n_components == 3
    np.testing.assert_array_equal(model.means, m.means[[0, 2, 3]])
    assert model.weights.sum() == pytest.approx(1, abs=1e-15)


def test_number_of_parameters() -> None:
    assert MixtureModel.of(make_mixture(7, 20, 3)).n_parameters == 6 + 7 * (20 * 5 - 3)


@pytest.mark.parametrize("trip", ["save", "pickle", "copy"])
def test_round_trips_score_the_same(tmp_path: Path, trip: str) -> None:
    model = MixtureModel.of(make_mixture(3, 6, 1, dtype="float32"))
    rows = draw(model, 30, dtype="float32")
    if trip == "save":
        model.save(tmp_path / "m.zarr")
        other = MixtureModel.load(tmp_path / "m.zarr")
    else:
        other = pickle.loads(pickle.dumps(model)) if trip == "pickle" else copy.deepcopy(model)
    assert parameters(other) == parameters(model)
    np.testing.assert_array_equal(other.score_samples(rows), model.score_samples(rows))


@pytest.mark.parametrize("truncation", [1, 2, 4, 6])
def test_bounds_of_the_log_likelihood(truncation: int) -> None:
    """Against the paper's relation from SciPy's joints."""
    mixture = make_mixture(6, 11, 2, spread=0.7)
    rows = draw(mixture, 700)
    joints = np.sort(log_joints(mixture, rows), axis=1)[:, ::-1]
    kept, left = np.exp(joints[:, :truncation]).sum(axis=1), np.exp(joints[:, truncation:]).sum(axis=1)
    bounds = MixtureModel.of(mixture).bounds(rows, truncation)
    assert bounds.free_energy == pytest.approx(np.log(kept).mean(), rel=1e-11)
    assert bounds.score == pytest.approx(logsumexp(joints, axis=1).mean(), rel=1e-11)
    assert bounds.upper == pytest.approx(np.log(kept).mean() + (left / kept).mean(), rel=1e-10)
    assert bounds.free_energy <= bounds.score <= bounds.upper
    if truncation == 6:
        assert bounds.free_energy == bounds.score == bounds.upper
    else:
        assert bounds.free_energy < bounds.score < bounds.upper


@pytest.mark.long
def test_bounds_agree_with_the_free_energy_of_a_fit() -> None:
    rows = draw(make_mixture(6, 8, 2, spread=1.0), 2000)
    fit = fit_local(rows, n_components=6, n_factors=2, max_iter=10, search="exhaustive", truncation=2)
    bounds = fit.model.bounds(rows, 2)
    assert bounds.free_energy == pytest.approx(fit.history[-1].free_energy, rel=1e-5)
    assert bounds.free_energy < fit.model.score(rows) < bounds.upper


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_searched_free_energy_is_that_of_the_best_components(dtype: str) -> None:
    """The search finds nearly what evaluating all components finds, and never more."""
    for spread in (0.7, 3.0):
        mixture = make_mixture(30, 8, 2, spread=spread, dtype=dtype)
        model, rows = MixtureModel.of(mixture), draw(mixture, 3000, dtype=dtype)
        bounds, found = model.bounds(rows, 3), model.free_energy(rows, 3, neighborhood=10)
        assert bounds.free_energy - 0.1 < found <= bounds.free_energy + 1e-6 * abs(bounds.free_energy)


def test_searched_free_energy_of_a_store(tmp_path: Path) -> None:
    model = MixtureModel.of(make_mixture(6, 12, 2))
    rows = draw(model, 2000).astype(np.float32)
    store = write_store(tmp_path / "rows.zarr", rows, 700)
    assert model.free_energy(store) == pytest.approx(model.free_energy(rows), rel=1e-12)
    assert model.free_energy(rows[:2]) <= model.score(rows[:2])  # fewer rows than components


def test_stores_are_scored_block_by_block(tmp_path: Path) -> None:
    model = MixtureModel.of(make_mixture(6, 12, 2, spread=1.0))
    rows = draw(model, 5000).astype(np.float32)
    store = write_store(tmp_path / "rows.zarr", rows, 700)
    np.testing.assert_array_equal(model.score_samples(store), model.score_samples(rows))
    np.testing.assert_array_equal(model.predict(tmp_path / "rows.zarr"), model.predict(rows))
    assert model.bounds(store) == model.bounds(rows)
    with pytest.raises(ValueError, match=r"rows.zarr: rows have 12 features, the model has 11"):
        MixtureModel.of(make_mixture(3, 11, 2)).score(store)
    rows[4321, 5] = np.nan
    bad = write_store(tmp_path / "bad.zarr", rows, 700)
    with pytest.raises(ValueError, match=r"bad.zarr: row 4321 \(chunk 6\), feature 5: found nan"):
        model.score(bad)


@pytest.mark.parametrize("truncation", [0, 7])
def test_bounds_of_no_components_or_too_many_are_refused(truncation: int) -> None:
    model = MixtureModel.of(make_mixture(6, 4, 2))
    with pytest.raises(ValueError, match=f"truncation={truncation}: expected 1 to n_components=6"):
        model.bounds(np.zeros((2, 4)), truncation)
    with pytest.raises(ValueError, match=f"truncation={truncation}: expected 1 to n_components=6"):
        model.free_energy(np.zeros((2, 4)), truncation)


def test_rows_in_every_form(tmp_path: Path) -> None:
    model = MixtureModel.of(make_mixture(5, 12, 3))
    rows = draw(model, 300, dtype="float32")
    expected, labels = model.score_samples(rows), model.predict(rows)
    path = write_store(tmp_path / "x.zarr", rows, 50)
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=rows)
    group.create_array("b", data=rows[:10])
    np.save(tmp_path / "x.npy", rows)
    transposed = xr.DataArray(rows.T, dims=("feature", "time"))
    forms: list[tuple[Any, dict[str, str]]] = [
        (path, {}),
        (Path(path), {}),
        (zarr.open_array(path, mode="r"), {}),
        (zarr.array(rows), {}),
        (group, {"array": "a"}),
        (np.load(tmp_path / "x.npy", mmap_mode="r"), {}),
        (dask.array.from_array(rows, chunks=(70, 5)), {}),
        (transposed, {"sample_dim": "time"}),
        (transposed.chunk({"time": 60}), {"sample_dim": "time"}),
        (xr.Dataset({"a": transposed, "b": transposed + 1}), {"array": "a", "sample_dim": "time"}),
    ]
    for x, options in forms:
        np.testing.assert_allclose(model.score_samples(x, **options), expected, rtol=1e-12)
        np.testing.assert_array_equal(model.predict(x, **options), labels)
        assert model.score(x, **options) == pytest.approx(expected.mean(), rel=1e-12)
        assert model.bounds(x, **options).score == pytest.approx(expected.mean(), rel=1e-12)
        assert model.free_energy(x, **options) <= model.score(x, **options)


def test_forms_that_leave_a_doubt_are_refused(tmp_path: Path) -> None:
    model = MixtureModel.of(make_mixture(5, 12, 3))
    square = xr.DataArray(np.zeros((12, 12)), dims=("feature", "time"))
    with pytest.raises(ValueError, match=r"x: a DataArray with the dimensions 'feature', 'time'; name the one"):
        model.score(square)
    with pytest.raises(ValueError, match="sample_dim='time': expected only with x of xarray"):
        model.score(np.zeros((3, 12)), sample_dim="time")
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=np.zeros((3, 12)))
    group.create_array("b", data=np.zeros((3, 12)))
    with pytest.raises(ValueError, match="'a', 'b'; choose one by the argument array="):
        model.predict(group)
    with pytest.raises(ValueError, match="x: rows have 5 features, the model has 12"):
        model.score(dask.array.zeros((10, 5)))


def test_each_chunk_of_dask_is_computed_once() -> None:
    model = MixtureModel.of(make_mixture(5, 12, 3))
    rows, computed = draw(model, 9_000, dtype="float32"), []

    def part(block_info: Any = None) -> np.ndarray:
        ((start, stop), _) = block_info[None]["array-location"]
        computed.append(start)
        return rows[start:stop]

    for size in (9_000, 5_000, 3_500, 100):
        computed.clear()
        chunks = ((size,) * (9_000 // size) + ((9_000 % size,) if 9_000 % size else ()), (12,))
        array = dask.array.map_blocks(part, chunks=chunks, dtype=rows.dtype)
        assert len(computed) == 0
        np.testing.assert_allclose(model.score_samples(array), model.score_samples(rows), rtol=1e-12)
        assert sorted(computed) == list(range(0, 9_000, size))
