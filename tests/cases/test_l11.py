"""L11: which axis counts samples is asked, unless the name of the first one says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import MixtureModel, fit_local

ROWS = draw(make_mixture(3, 12, 1), 60, dtype="float32")
MODEL = MixtureModel.of(make_mixture(3, 12, 1))
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2}
CLEAR = ["sample", "samples", "Sample", "n", "obs", "observation", "observations", "image", "images"]
UNCLEAR = ["row", "rows", "y", "x", "time", "band", "lat", "height", "feature", "dim_0", "number", "index"]


def named(first: str, chunks: Any = None) -> xr.DataArray:
    array = xr.DataArray(ROWS.reshape(60, 4, 3), dims=(first, "col", "channel"))
    return array if chunks is None else array.chunk(chunks)


@pytest.mark.parametrize("first", CLEAR)
def test_names_that_say_sample(first: str) -> None:
    model = MixtureModel(MODEL.weights, MODEL.means, MODEL.loadings, MODEL.noise_variances, (4, 3))
    for data in (named(first), named(first, 10), xr.Dataset({"a": named(first)})):
        np.testing.assert_array_equal(model.score_samples(data), MODEL.score_samples(ROWS))
    assert fit_local(named(first), **OPTIONS).model.feature_shape == (4, 3)


@pytest.mark.parametrize("chunks", [None, 10])
@pytest.mark.parametrize("first", UNCLEAR)
def test_all_others_are_asked_for(first: str, chunks: Any) -> None:
    message = (
        rf"a DataArray with the dimensions '{first}', 'col', 'channel'; name the one that counts samples by "
        r"sample_dim=\.\.\., found sample_dim=None \(only a first dimension called sample, samples, .*image or images"
    )
    for data in (named(first, chunks), xr.Dataset({"a": named(first, chunks)})):
        with pytest.raises(ValueError, match=f"data: {message}"):
            fit_local(data, **OPTIONS)
        for method in ("score_samples", "score", "predict", "bounds", "free_energy"):
            with pytest.raises(ValueError, match=f"x: {message}"):
                getattr(MODEL, method)(data)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_dimension_that_is_named_comes_first(place: int) -> None:
    dims = ["row", "band"]
    dims.insert(place, "pixel")
    array = named("pixel").rename(col="row", channel="band").transpose(*dims)
    expected = fit_local(ROWS.reshape(60, 4, 3), **OPTIONS).model
    for data in (array, array.chunk({"row": 2})):
        fit = fit_local(data, sample_dim="pixel", **OPTIONS)
        assert fit.model.feature_shape == (4, 3)
    assert parameters(fit_local(array, sample_dim="pixel", **OPTIONS).model) == parameters(expected)


def test_only_xarray_has_names(tmp_path: Path) -> None:
    for data in (ROWS, ROWS.tolist(), dask.array.from_array(ROWS), write_store(tmp_path / "x.zarr", ROWS, 60)):
        with pytest.raises(ValueError, match=r"sample_dim='row': expected only with x of xarray; rows are the first"):
            MODEL.score(data, sample_dim="row")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stores_whose_samples_lie_on_another_axis(tmp_path: Path, zarr_format: int) -> None:
    """The first axis of a store counts rows, unless its own names say otherwise."""

    def stored(*names: str) -> zarr.Array[Any]:
        axes = {"dimension_names": names} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": list(names)}}
        return zarr.create_array(tmp_path / "-".join(names), data=ROWS[:12], zarr_format=zarr_format, **axes)

    for names in (("sample", "feature"), ("time", "level"), ("y", "x"), ("image", "n")):
        MODEL.score(stored(*names))
    for names in (("feature", "sample"), ("x", "obs")):
        array = stored(*names)
        for data in (array, tmp_path / "-".join(names)):
            with pytest.raises(ValueError, match=f"rows are the first dimension, .* called '{names[0]}', '{names[1]}'"):
                MODEL.score(data)
            with pytest.raises(ValueError, match="open it with xarray and name the one"):
                fit_local(data, **OPTIONS)
