"""S07: numbers that a store says are packed, or mark missing values, are decoded by xarray or not used."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client
from zarr.storage import MemoryStore, ZipStore

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import MixtureModel, fit_distributed, fit_local

ROWS = np.clip(draw(make_mixture(3, 4, 1), 60).round(1), -90, 90)
MODEL = MixtureModel.of(make_mixture(3, 4, 1))
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2}
PACKED: list[dict[str, Any]] = [
    {"scale_factor": 0.1},
    {"add_offset": 10.0},
    {"scale_factor": 0.1, "add_offset": 10.0, "_FillValue": -32768},
    {"_FillValue": -32768},
    {"missing_value": -999},
    {"missing_value": [-999, -998]},
    {"scale_factor": [0.1]},
    {"_Unsigned": "true"},
]
HARMLESS: list[dict[str, Any]] = [
    {"scale_factor": 1, "add_offset": 0.0},
    {"scale_factor": [1.0]},
    {"valid_min": -5, "valid_max": 7, "valid_range": [-5, 7], "units": "m", "long_name": "height"},
    {"_FillValue": "NaN"},
    {"_FillValue": "AAAAAAAA+H8="},
    {"_Unsigned": "false"},
]


def read_by_all(data: Any, **options: Any) -> None:
    """Each function meets the same gate."""
    for method in ("score_samples", "score", "predict", "bounds", "free_energy"):
        getattr(MODEL, method)(data, **options)
    fit_local(data, **OPTIONS, **options)


@pytest.mark.parametrize("attributes", PACKED, ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_that_change_values(tmp_path: Path, zarr_format: int, attributes: dict[str, Any]) -> None:
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format)
    array = group.create_array("deep/x", data=ROWS.astype(np.int16), chunks=(20, 4))
    array.attrs.update(attributes)
    folder = tmp_path / "g.zarr"
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        packed = zarr.create_array(store, name="deep/x", data=ROWS.astype(np.int16), attributes=attributes)
        assert dict(packed.attrs) == attributes
    forms: list[tuple[Any, dict[str, Any]]] = [
        (folder, {}),
        (folder, {"array": "deep/x"}),
        (folder / "deep" / "x", {}),
        (group, {}),
        (array, {}),
        (tmp_path / "x.zip", {}),
    ]
    name = next(iter(attributes))
    way = r"pass xarray\.open_zarr\('.*(g\.zarr', group='deep'|x.zip', group='deep'|deep')\)\['x'\], which decodes them"
    for data, options in forms:
        for read in (lambda data, **o: MODEL.score(data, **o), lambda data, **o: fit_local(data, **OPTIONS, **o)):
            with pytest.raises(ValueError, match=rf"the attributes .*{name}=.*; {way}"):
                read(data, **options)


@pytest.mark.parametrize("attributes", HARMLESS, ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_that_change_nothing(tmp_path: Path, zarr_format: int, attributes: dict[str, Any]) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 60, zarr_format=zarr_format, attributes=attributes)
    assert parameters(fit_local(path, **OPTIONS).model) == parameters(fit_local(ROWS, **OPTIONS).model)
    np.testing.assert_array_equal(MODEL.score_samples(path), MODEL.score_samples(ROWS))


def test_arrays_without_a_group() -> None:
    array = zarr.create_array(MemoryStore(), data=ROWS, attributes={"scale_factor": 2.0})
    with pytest.raises(ValueError, match=r"x: the attributes scale_factor=2.0 .*; pass an array of decoded values"):
        MODEL.score(array)


def data_set(holes: bool) -> xr.Dataset:
    rows = ROWS.copy()
    if holes:
        rows[17, 2] = np.nan
    return xr.Dataset({"t": (("time", "level"), rows)})


def written(path: Path, zarr_format: int, holes: bool, **encoding: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data_set(holes).to_zarr(path, zarr_format=zarr_format, consolidated=False, encoding={"t": encoding})
    return str(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "encoding",
    [
        {"dtype": "i2", "scale_factor": 0.1, "add_offset": 3.0, "_FillValue": -32768},
        {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -32768},
        {"dtype": "f4", "_FillValue": -9999.0},
        {"dtype": "f8", "_FillValue": 1e20},
        {"dtype": "f8", "missing_value": -9999.0, "_FillValue": None},
    ],
    ids=str,
)
def test_what_xarray_packs_is_read_through_xarray(tmp_path: Path, zarr_format: int, encoding: dict[str, Any]) -> None:
    path = written(tmp_path / "x.zarr", zarr_format, False, **encoding)
    value = re.escape(str(encoding.get("_FillValue") or encoding["missing_value"]))
    message = rf"x\.zarr/t: the attributes .*{value}.* say .*xarray\.open_zarr\('.*x\.zarr'\)\['t'\]"
    with pytest.raises(ValueError, match=message):
        fit_local(path, **OPTIONS)
    known = MODEL.score_samples(ROWS)
    for chunks in (None, {}):
        decoded = xr.open_zarr(path, consolidated=False, chunks=chunks)["t"]
        np.testing.assert_allclose(MODEL.score_samples(decoded, sample_dim="time"), known, rtol=1e-3)
        fit_local(decoded, sample_dim="time", **OPTIONS)
    stored = xr.open_zarr(path, consolidated=False, mask_and_scale=False)["t"]
    assert MODEL.score_samples(stored, sample_dim="time").shape == (60,)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_xarray_writes_by_default_is_read_as_it_is(tmp_path: Path, zarr_format: int) -> None:
    path = written(tmp_path / "x.zarr", zarr_format, False)
    assert parameters(fit_local(path, **OPTIONS).model) == parameters(fit_local(ROWS, **OPTIONS).model)
    counts = xr.Dataset({"t": (("time", "level"), np.arange(240).reshape(60, 4))})
    counts.to_zarr(tmp_path / "counts.zarr", zarr_format=zarr_format, consolidated=False)
    read_by_all(tmp_path / "counts.zarr")


def test_pictures_whose_fill_value_is_zero_are_read(tmp_path: Path) -> None:
    """Zarr's own default; xarray takes it as a mark of missing values in format 2."""
    attributes = {"_ARRAY_DIMENSIONS": ["sample", "feature"]}
    rows = np.arange(240, dtype=np.uint8).reshape(60, 4)
    read_by_all(write_store(tmp_path / "x.zarr", rows, 20, zarr_format=2, attributes=attributes))
    other = write_store(tmp_path / "y.zarr", rows, 20, zarr_format=2, fill_value=255, attributes=attributes)
    with pytest.raises(ValueError, match="the attributes _FillValue=255 say"):
        MODEL.score(other)
    del zarr.open_array(other).attrs["_ARRAY_DIMENSIONS"]
    read_by_all(other)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [None, {}])
def test_missing_values_are_called_by_their_variable(
    tmp_path: Path, zarr_format: int, chunks: Any, processes: Client
) -> None:
    path = written(tmp_path / "x.zarr", zarr_format, True, dtype="i2", scale_factor=0.1, _FillValue=-32768)
    decoded = xr.open_zarr(path, consolidated=False, chunks=chunks)
    place = "variable 't': row 17, feature 2: found nan, expected a finite number; "
    advice = "xarray gives NaN where _FillValue=-32768 is stored: .*mask_and_scale=False"
    forms = [(decoded, {"array": "t"}, advice), (decoded["t"], {}, advice), (decoded["t"] * 2, {}, "clean the data")]
    for data, options, remedy in forms:
        with pytest.raises(ValueError, match=f"^data: {place}{remedy}"):
            fit_local(data, sample_dim="time", **OPTIONS, **options)
        with pytest.raises(ValueError, match=f"^data: {place}{remedy}"):
            fit_distributed(data, sample_dim="time", client=processes, **OPTIONS, **options)
        with pytest.raises(ValueError, match=f"^x: {place}{remedy}"):
            MODEL.score(data, sample_dim="time", **options)


@pytest.mark.parametrize("form", ["array", "npy", "dask"])
def test_no_temporary_path_is_named(tmp_path: Path, form: str, processes: Client) -> None:
    rows = data_set(True)["t"].values
    np.save(tmp_path / "x.npy", rows)
    data = {"array": rows, "npy": tmp_path / "x.npy", "dask": dask.array.from_array(rows, chunks=(7, 3))}[form]
    label = str(tmp_path / "x.npy") if form == "npy" else "data"
    with pytest.raises(ValueError, match=rf"^{label}: row 17, feature 2: found nan, expected a finite number; clean"):
        fit_distributed(data, client=processes, **OPTIONS)
