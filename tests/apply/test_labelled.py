"""xarray in, xarray out: labelled results, computed when they are needed; models as Datasets, and back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array
import numpy as np
import pytest
import xarray as xr

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel
from vmfa_dask.apply.labelled import RowResult, per_row
from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.run.row_source import RowSource

N, SHAPE = 60, (3, 4)


def make_model(dtype: str = "float32", offset: bool = False, n_factors: int = 3) -> MixtureModel:
    mixture = replace(make_mixture(5, 12, n_factors, dtype=dtype), feature_shape=SHAPE)
    if offset:
        mixture = replace(mixture, offset=np.linspace(1e5, 2e5, 12))
    return MixtureModel.of(mixture)


MODEL = make_model()
ROWS = draw(MODEL, N, dtype="float32")


def labelled(rows: np.ndarray = ROWS) -> xr.DataArray:
    """Rows whose samples are the last dimension but one, with coordinates of every kind."""
    images = xr.DataArray(
        rows.reshape(-1, *SHAPE).transpose(1, 0, 2),
        dims=("component", "time", "x"),  # a feature dimension has the name of one of the results
        coords={
            "time": np.arange(len(rows)) * 10,
            "x": list("abcd"),
            "station": ("time", [f"s{n % 7}" for n in range(len(rows))]),
            "height": 2.0,
            "quality": (("time", "x"), np.ones((len(rows), 4))),
        },
        name="temperature",
        attrs={"units": "K"},
    )
    images.time.attrs["long_name"] = "time of day"
    return images


@pytest.mark.parametrize("chunks", [None, {"time": 25}, {"time": 25, "component": 2, "x": 3}])
def test_scores_and_labels_have_the_labels_of_their_samples(chunks: dict[str, int] | None) -> None:
    rows = labelled() if chunks is None else labelled().chunk(chunks)
    for result, expected, name in (
        (MODEL.score_samples(rows, sample_dim="time"), MODEL.score_samples(ROWS), "log_density"),
        (MODEL.predict(rows, sample_dim="time"), MODEL.predict(ROWS), "label"),
    ):
        assert isinstance(result, xr.DataArray)
        assert (result.name, result.dims, result.dtype) == (name, ("time",), expected.dtype)
        assert set(result.coords) == {"time", "station", "height"}
        assert result.time.attrs == {"long_name": "time of day"}
        assert "long_name" in result.attrs
        assert result.attrs.get("units") == ("nats" if name == "log_density" else None)
        assert dask.is_dask_collection(result) is (chunks is not None)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert float(result.sel(time=200)) == pytest.approx(expected[20], rel=1e-6)
    assert isinstance(MODEL.score_samples(ROWS), np.ndarray)
    assert MODEL.score(rows, sample_dim="time") == pytest.approx(MODEL.score(ROWS), rel=1e-9)
    assert MODEL.bic(rows, sample_dim="time") == pytest.approx(MODEL.bic(ROWS), rel=1e-9)


def test_variables_of_datasets_and_indexes_of_several_levels() -> None:
    rows = labelled().drop_vars("quality").stack(sample=["time"]).transpose("sample", ...)
    data = xr.Dataset({"a": rows, "b": rows + 1})
    scores = MODEL.score_samples(data, array="b")
    np.testing.assert_allclose(scores, MODEL.score_samples(ROWS + np.float32(1)), rtol=1e-6)
    xr.testing.assert_equal(scores.coords.to_dataset()["sample"], rows["sample"])
    assert scores.sel(time=50).size == 1


def test_lazy_rows_are_computed_when_results_are_and_once() -> None:
    computed: list[int] = []

    def part(block_info: Any = None) -> np.ndarray:
        ((start, stop), *_) = block_info[None]["array-location"]
        computed.append(start)
        return ROWS[start:stop].reshape(-1, *SHAPE)

    chunks, meta = ((20, 0, 40), (3,), (4,)), np.empty((0, 0, 0), np.float32)
    array = dask.array.map_blocks(part, chunks=chunks, dtype="float32", meta=meta)
    scores = MODEL.score_samples(xr.DataArray(array, dims=("sample", "y", "x")))
    assert scores.chunks == ((20, 0, 40),)
    assert computed == []
    np.testing.assert_allclose(scores.compute(), MODEL.score_samples(ROWS), rtol=1e-6)
    assert sorted(computed) == [0, 20, 20]


def test_the_model_is_one_task_and_part_of_no_other() -> None:
    model = MixtureModel.of(make_mixture(50, 12, 3))
    scores = model.score_samples(xr.DataArray(draw(model, 100), dims=("sample", "x")).chunk(sample=10))
    sizes = sorted(len(cloudpickle.dumps(task)) for task in dict(scores.data.__dask_graph__()).values())
    assert sizes[-1] > len(pickle.dumps(model)) > 4 * sizes[-2]


def test_what_is_wrong_with_lazy_rows_is_named() -> None:
    with pytest.raises(ValueError, match="x: variable 'temperature': rows have 9 features, the model has 12"):
        MODEL.predict(labelled().chunk(time=25)[:, :, :3], sample_dim="time")
    rows = ROWS.copy()
    rows[33, 7] = np.nan
    scores = MODEL.score_samples(labelled(rows).chunk(time=25), sample_dim="time")
    with pytest.raises(ValueError, match="variable 'temperature': row 33, feature 7: found nan"):
        scores.compute()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("method", "options", "dims"),
    [
        ("predict_proba", {}, ("time", "component")),
        ("transform", {}, ("time", "factor")),
        ("transform", {"weighted": True}, ("time", "factor")),
        ("reconstruct", {"truncation": 2}, ("time", "component", "x")),
    ],
)
def test_other_results_are_labelled_too(
    method: str, options: dict[str, Any], dims: tuple[str, ...], lazy: bool, tmp_path: Path
) -> None:
    rows = labelled().chunk(time=25) if lazy else labelled()
    result = getattr(MODEL, method)(rows, sample_dim="time", **options)
    plain = getattr(MODEL, method)(ROWS.reshape(-1, *SHAPE), **options)
    assert result.dims == dims
    of_features = {"x", "quality"} if method == "reconstruct" else set()
    assert set(result.coords) == {"time", "station", "height"} | of_features
    assert dask.is_dask_collection(result) is lazy
    np.testing.assert_allclose(result, plain, rtol=1e-6, atol=1e-9)
    stored = getattr(MODEL, method)(rows, sample_dim="time", **options, out=tmp_path / "out.zarr")
    np.testing.assert_array_equal(stored[...], plain)


def test_sparse_probabilities_have_no_labels() -> None:
    sparse = MODEL.predict_proba(labelled().chunk(time=25), truncation=2, sample_dim="time")
    np.testing.assert_array_equal(sparse.components, MODEL.predict_proba(ROWS, truncation=2).components)


@pytest.mark.parametrize("lazy", [False, True])
def test_missing_values_and_outliers(lazy: bool) -> None:
    gaps = ROWS.copy()
    gaps[::3, 4:7] = np.nan
    rows = labelled(gaps).chunk(time=25) if lazy else labelled(gaps)
    completed, scores = MODEL.complete(rows, sample_dim="time"), MODEL.score_observed(rows, sample_dim="time")
    assert (completed.dims, completed.attrs) == (("time", "component", "x"), {"units": "K"})
    np.testing.assert_allclose(completed, MODEL.complete(gaps).reshape(completed.shape), rtol=1e-6)
    assert (scores.dims, scores.name) == (("time",), "observed_log_density")
    np.testing.assert_allclose(scores, MODEL.score_observed(gaps), rtol=1e-6)
    assert dask.is_dask_collection(completed) is dask.is_dask_collection(scores) is lazy
    threshold = MODEL.outlier_threshold(completed, 0.1, sample_dim="time")
    outliers = MODEL.is_outlier(completed, threshold, sample_dim="time")
    assert (outliers.name, outliers.dims, set(outliers.attrs)) == ("outlier", ("time",), {"long_name"})
    assert int(outliers.sum()) == 6


def residuals(model: MixtureModel, rows: RowSource) -> np.ndarray:
    return rows.read(0, rows.n_rows) - model.means.mean(axis=0)


def distances(model: MixtureModel, rows: RowSource) -> np.ndarray:
    return np.abs(rows.read(0, rows.n_rows)[:, None] - model.means).sum(axis=2)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("compute", "result", "dims"),
    [
        (residuals, RowResult("unused", like_rows=True), ("time", "component", "x")),
        (distances, RowResult("distance", axis="component"), ("time", "component")),
    ],
)
def test_results_of_other_shapes(
    lazy: bool, compute: Callable[..., np.ndarray], result: RowResult, dims: tuple[str, ...]
) -> None:
    rows = labelled().chunk(time=25) if lazy else labelled()
    values = per_row(compute, MODEL, rows, None, "time", result)
    plain = per_row(compute, MODEL, ROWS, None, None, result)
    assert values.dims == dims
    assert dask.is_dask_collection(values) is lazy
    np.testing.assert_allclose(values.values.reshape(N, -1), plain, rtol=1e-6)
    if result.like_rows:
        assert (values.name, values.attrs) == ("temperature", {"units": "K"})
        assert "".join(values.x.values) == "abcd"


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(("dtype", "n_factors"), [("float32", 3), ("float64", 0)])
def test_a_model_comes_back_from_its_dataset(tmp_path: Path, dtype: str, n_factors: int, offset: bool) -> None:
    model = MixtureModel.of(make_model(dtype, offset, n_factors).mixture, ModelType("mfa", "shared", False))
    model.to_xarray().to_zarr(tmp_path / "labelled.zarr", zarr_format=3, consolidated=False)
    with xr.open_zarr(tmp_path / "labelled.zarr", consolidated=False) as stored:
        for dataset in (model.to_xarray(), stored, stored.transpose("y", "x", ...)):
            again = MixtureModel.from_xarray(dataset)
            assert again == model
            assert parameters(again) == parameters(model) or dtype == "float64"  # means plus offset round
            assert (again.feature_shape, again.loadings.dtype) == (SHAPE, dtype)


def test_a_dataset_says_what_is_in_it() -> None:
    model = make_model(offset=True)
    dataset = model.to_xarray()
    assert dict(dataset.sizes) == {"component": 5, "factor": 3, "y": 3, "x": 4}
    assert dataset.loadings.dims == ("component", "factor", "y", "x")
    np.testing.assert_array_equal(dataset.means, model.component_means)
    np.testing.assert_array_equal(dataset.loadings.values.reshape(5, 3, 12), model.loadings)
    np.testing.assert_array_equal(dataset.noise_variances.values.reshape(5, 12), model.noise_variances)
    assert np.shares_memory(dataset.loadings.values, model.loadings)
    assert dataset.weights.attrs == {"long_name": "mixing proportion", "units": "1"}
    assert dataset.attrs["covariance_type"] == "mfa"
    assert json.loads(json.dumps(dataset.attrs)) == dataset.attrs
    flat = MixtureModel.of(make_mixture(2, 12, 1))
    assert flat.to_xarray().means.dims == ("component", "feature")
    four = MixtureModel.of(replace(flat.mixture, feature_shape=(3, 1, 2, 2)))
    assert four.to_xarray().means.dims == ("component", "feature_0", "feature_1", "feature_2", "feature_3")


def test_axes_of_rows_get_names_and_coordinates() -> None:
    dataset = MODEL.to_xarray({"lat": [50, 51, 52], "lon": [1, 2, 3, 4]})
    np.testing.assert_array_equal(dataset.means.sel(lat=51, lon=4), MODEL.component_means[:, 1, 3])
    assert MixtureModel.from_xarray(dataset) == MODEL
    for names in (["y"], ["y", "y"], ["component", "x"], "yx"):
        with pytest.raises(ValueError, match=r"expected 2 different names for the axes of a row, .* \(3, 4\)"):
            MODEL.to_xarray(names)


def test_other_datasets_are_refused(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "m")
    with (
        xr.open_zarr(tmp_path / "m", consolidated=False) as saved,
        pytest.raises(ValueError, match=r"format is 'vmfa_dask.mixture', expected .*MixtureModel.load\(path\) opens"),
    ):
        MixtureModel.from_xarray(saved)
    dataset = MODEL.to_xarray()
    with pytest.raises(ValueError, match="the variables loadings are missing"):
        MixtureModel.from_xarray(dataset.drop_vars("loadings"))
    with pytest.raises(ValueError, match=r"loadings has the dimensions \['component', 'y', 'x'\], expected"):
        MixtureModel.from_xarray(dataset.assign(loadings=dataset.loadings[:, 0]))
    with pytest.raises(ValueError, match="weights must be >= 0 and sum to 1"):
        MixtureModel.from_xarray(dataset.isel(component=[0, 1]))
    with pytest.raises(ValueError, match="written in format 2, this version reads up to 1"):
        MixtureModel.from_xarray(dataset.assign_attrs(format_version=2))
