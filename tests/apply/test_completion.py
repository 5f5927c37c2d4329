"""Missing values against full Gaussians that are conditioned densely; whatever says what is missing says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

from tests.samples import draw, make_mixture, write_store
from tests.twins.mixture import Dense, given_observed, long_distances
from vmfa_dask import MixtureModel
from vmfa_dask.apply.observed import ObservedParts

NAN = float("nan")


def with_gaps(n: int, n_features: int, seed: int = 3) -> np.ndarray:
    """Which values are missing: a few in each row, half of it in others; nothing in row 0, everything in row 1."""
    rng = np.random.default_rng(seed)
    missing = rng.random((n, n_features)) < 0.3
    missing[n // 2 :, : n_features // 2], missing[n // 2 :, n_features // 2 :] = True, False
    missing[0], missing[1] = False, True
    return missing


def by_twin(model: MixtureModel, rows: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dense = Dense.of(model)
    pairs = [given_observed(dense, row.astype(np.float64), gaps) for row, gaps in zip(rows, missing, strict=True)]
    return np.array([score for score, _ in pairs]), np.array([row for _, row in pairs])


@pytest.mark.parametrize(
    ("dtype", "n_factors", "rounding"), [("float64", 3, 1e-9), ("float32", 3, 1e-5), ("float32", 0, 1e-5)]
)
def test_conditional_gaussians(dtype: str, n_factors: int, rounding: float) -> None:
    model = MixtureModel.of(make_mixture(5, 11, n_factors, dtype=dtype, spread=1.0))
    rows, missing = draw(model, 80, dtype=dtype), with_gaps(80, 11)
    scores, completed = by_twin(model, rows, missing)
    np.testing.assert_allclose(model.complete(rows, missing), completed, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(model.score_observed(rows, missing), scores, rtol=rounding, atol=rounding)
    assert np.abs(completed[2:] - rows[2:])[missing[2:]].max() > 0.5  # a completion is no copy


def test_rows_that_miss_nothing_or_everything() -> None:
    model = MixtureModel.of(make_mixture(4, 6, 2, dtype="float32"))
    rows = draw(model, 20, dtype="float32")
    np.testing.assert_array_equal(model.complete(rows), rows)
    np.testing.assert_allclose(model.score_observed(rows), model.score_samples(rows), rtol=1e-5, atol=1e-5)
    nothing = np.full((3, 6), NAN)
    np.testing.assert_allclose(model.complete(nothing), np.tile(model.weights @ model.means, (3, 1)), rtol=1e-12)
    np.testing.assert_allclose(model.score_observed(nothing), 0, atol=1e-12)


def test_every_way_to_say_what_is_missing(tmp_path: Path) -> None:
    model = MixtureModel.of(replace(make_mixture(4, 6, 2), feature_shape=(2, 3)))
    rows, missing = draw(model, 500), with_gaps(500, 6)
    expected, scores = model.complete(rows, missing), model.score_observed(rows, missing)
    holes = np.where(missing, NAN, rows)
    hidden, even = np.where(missing, np.inf, rows), np.arange(6) % 2 == 0
    store = zarr.open_array(write_store(tmp_path / "rows.zarr", holes, 130), mode="r")
    for x, mask in (
        (holes, None),
        (np.ma.array(hidden, mask=missing), None),
        (hidden, missing),
        (hidden, missing.tolist()),
        (np.where(even, holes, hidden), missing & ~even),
        (store, None),
        (xr.DataArray(holes, dims=("sample", "feature")), None),
    ):
        np.testing.assert_array_equal(model.complete(x, mask), expected)
        np.testing.assert_array_equal(model.score_observed(x, mask), scores)
    images = model.complete(rows.reshape(500, 2, 3), missing.reshape(500, 2, 3))
    np.testing.assert_array_equal(images, expected.reshape(500, 2, 3))


def test_one_mask_for_all_rows() -> None:
    model = MixtureModel.of(replace(make_mixture(4, 6, 2), feature_shape=(2, 3)))
    rows = draw(model, 30)
    lower = np.array([[False] * 3, [True] * 3])
    expected = model.complete(rows, np.tile(lower.ravel(), (30, 1)))
    np.testing.assert_array_equal(model.complete(rows, lower), expected)
    np.testing.assert_array_equal(model.complete(rows, lower.ravel()), expected)
    np.testing.assert_array_equal(expected[:, :3], rows[:, :3])


def test_blocks_and_a_store(tmp_path: Path) -> None:
    """More rows than one block, whole numbers, and a result on disk."""
    model = MixtureModel.of(make_mixture(4, 6, 2, dtype="float32", spread=20.0))
    rows, missing = draw(model, 5000, dtype="int16"), with_gaps(5000, 6)
    completed = model.complete(rows, missing)
    scores, some = by_twin(model, rows[4090:4110], missing[4090:4110])
    np.testing.assert_allclose(completed[4090:4110], some, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.score_observed(rows, missing)[4090:4110], scores, rtol=1e-5)
    stored = model.complete(rows, missing, out=tmp_path / "completed.zarr")
    np.testing.assert_array_equal(stored[:], completed)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "completed.zarr", mode="r")[:], completed)
    for x, mask in ((rows, ~missing), (rows, missing[0]), (rows + 1, missing)):
        with pytest.raises(FileExistsError, match="holds the results of another call"):
            model.complete(x, mask, out=tmp_path / "completed.zarr")


def test_an_interrupted_completion_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmfa_dask.store.outputs._FEWEST_CHUNK_ROWS", 30)
    monkeypatch.setattr(ObservedParts, "block_rows", 20)
    monkeypatch.setattr("vmfa_dask.apply.streaming._MOST_BLOCKS", 1)
    model = MixtureModel.of(make_mixture(4, 6, 2))
    rows, missing = draw(model, 100), with_gaps(100, 6)
    expected, out, blocks = model.complete(rows, missing), tmp_path / "completed.zarr", []
    expectations = ObservedParts.expectations

    def interrupt(self: Any, block: Any, gaps: Any) -> Any:
        blocks.append(len(block))
        if len(blocks) == 4:
            raise KeyboardInterrupt
        return expectations(self, block, gaps)

    monkeypatch.setattr(ObservedParts, "expectations", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.complete(rows, missing, out=out)
    np.testing.assert_array_equal(model.complete(rows, missing, out=out)[:], expected)
    assert len(blocks) == 4 + 5  # blocks of 20 and 10 rows in ranges of 30: the first range is not computed again
    given = zarr.create_array({}, shape=(100, 6), chunks=(7, 6), dtype="float32")
    np.testing.assert_array_equal(model.complete(rows, missing, out=given)[:], expected.astype(np.float32))
    store = zarr.open_array(write_store(tmp_path / "rows.zarr", rows, 130), mode="r+")
    with pytest.raises(ValueError, match="these are the rows themselves"):
        model.complete(store, missing, out=store)


def test_offset() -> None:
    model = MixtureModel.of(replace(make_mixture(3, 5, 1), offset=np.array([1e6, -3, 0, 2.5e5, 7])))
    rows, missing = draw(model, 40), with_gaps(40, 5)
    scores, completed = by_twin(model, rows, missing)
    np.testing.assert_allclose(model.score_observed(rows, missing), scores, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.complete(rows, missing), completed, rtol=1e-9)


def test_rows_along_the_factors_keep_their_digits() -> None:
    """Factors a hundred million times as wide as the noise: the difference of squares alone would be off by nats."""
    m = make_mixture(1, 6, 1)
    model = MixtureModel.of(replace(m, loadings=m.loadings * 1e8))
    rows, dense = draw(model, 40), Dense.of(model)
    part = Dense(dense.weights, dense.means[:, :4], dense.loadings[:, :, :4], dense.noise_variances[:, :4])
    precision = 1 + np.sum(part.loadings**2 / part.noise_variances)
    log_norm = -0.5 * (4 * np.log(2 * np.pi) + np.log(part.noise_variances).sum() + np.log(precision))
    expected = log_norm - 0.5 * long_distances(part, rows[:, :4])[:, 0].astype(np.float64)
    scores = model.score_observed(rows, np.arange(6) >= 4)
    np.testing.assert_allclose(scores, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("x", "missing", "message"),
    [
        (np.full((2, 6), np.inf), None, "row 0, feature 0: found inf, expected a finite number, or NaN"),
        (np.zeros((2, 6)), np.zeros((2, 5), bool), r"missing: found shape \(2, 5\), expected \(6,\) or \(2, 6\)"),
        (np.zeros((2, 6)), np.zeros((2, 6), int), "missing: found dtype int64, expected booleans"),
        (np.zeros((2, 5)), None, "rows have 5 features, the model has 6"),
        (np.array([[0.0] * 6, [1e200, NAN, 0, 0, 0, 0]]), None, "row 1: observed values are so far"),
    ],
)
def test_what_cannot_be_completed_is_refused(x: Any, missing: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureModel.of(make_mixture(3, 6, 1, dtype="float32")).complete(x, missing)


def test_far_rows_have_no_density() -> None:
    model = MixtureModel.of(make_mixture(3, 6, 1, dtype="float32"))
    assert model.score_observed(np.array([[1e200, NAN, 0, 0, 0, 0]])).tolist() == [-np.inf]


def test_threads_do_not_change_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MixtureModel.of(make_mixture(5, 11, 3, dtype="float32"))
    rows, missing = draw(model, 60, dtype="float32"), with_gaps(60, 11)
    results = []
    for n_threads in (1, 3):
        monkeypatch.setattr("vmfa_dask.apply.observed.available_cores", lambda n=n_threads: n)
        results.append(model.complete(rows, missing).tobytes() + model.score_observed(rows, missing).tobytes())
    assert results[0] == results[1]
