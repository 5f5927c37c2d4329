"""Z09: which variable and which dimension of xarray are the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(4, 12, 3), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 2, "n_groups": 2}


@pytest.fixture(scope="module")
def expected() -> bytes:
    return parameters(fit_local(ROWS, **OPTIONS).model)


def data_set() -> xr.Dataset:
    images = (("sample", "height", "width"), ROWS.reshape(600, 4, 3))
    return xr.Dataset({"images": images, "labels": (("sample",), np.arange(600))})


def test_a_variable_of_a_data_set_is_chosen(in_process: Client, expected: bytes) -> None:
    with pytest.raises(ValueError, match=r"a Dataset with the variables 'images', 'labels'; choose one .*array=None"):
        fit_distributed(data_set(), client=in_process, **OPTIONS)
    fit = fit_distributed(data_set(), array="images", client=in_process, **OPTIONS)
    assert parameters(fit.model) == expected
    assert fit.model.feature_shape == (4, 3)
    with pytest.raises(ValueError, match=r"array='images': data is a DataArray itself"):
        fit_local(data_set()["images"], array="images", **OPTIONS)


@pytest.mark.parametrize("chunks", [None, {"feature": 5, "sample": 100}])
def test_a_transposed_array_is_never_taken_as_it_lies(chunks: Any, expected: bytes, in_process: Client) -> None:
    array = xr.DataArray(ROWS.T, dims=("feature", "sample"))
    array = array if chunks is None else array.chunk(chunks)
    with pytest.raises(ValueError, match=r"dimensions 'feature', 'sample'; name the one .*found sample_dim=None"):
        fit_distributed(array, client=in_process, **OPTIONS)
    with pytest.raises(ValueError, match=r"found sample_dim='time'"):
        fit_distributed(array, sample_dim="time", client=in_process, **OPTIONS)
    fit = fit_distributed(array, sample_dim="sample", client=in_process, **OPTIONS)
    assert parameters(fit.model) == expected


def test_a_store_that_xarray_opened(tmp_path: Path, in_process: Client, expected: bytes) -> None:
    data_set().to_zarr(tmp_path / "x.zarr", zarr_format=3, consolidated=False)
    opened = xr.open_zarr(tmp_path / "x.zarr", consolidated=False)
    assert parameters(fit_distributed(opened["images"], client=in_process, **OPTIONS).model) == expected


def test_arrays_and_groups_of_zarr(tmp_path: Path, processes: Client, expected: bytes) -> None:
    array = zarr.open_array(write_store(tmp_path / "x.zarr", ROWS, 600), mode="r")
    assert parameters(fit_distributed(array, client=processes, **OPTIONS).model) == expected
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    nested = group.create_group("inside")
    for name, rows in (("a", ROWS), ("b", ROWS[:, :6])):
        nested.create_array(name, data=rows, chunks=(600, rows.shape[1]))
    assert parameters(fit_distributed(nested, array="a", client=processes, **OPTIONS).model) == expected
    assert parameters(fit_local(nested["a"], **OPTIONS).model) == expected
    kept = zarr.create_array(zarr.storage.MemoryStore(), data=ROWS)
    assert parameters(fit_distributed(kept, client=processes, **OPTIONS).model) == expected
    with pytest.raises(TypeError, match=r"a Group of zarr in memory.*; pass its path or URL"):
        fit_local(zarr.open_group(zarr.storage.MemoryStore()), **OPTIONS)


def test_memory_maps_and_what_is_no_data(tmp_path: Path, processes: Client, expected: bytes) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert parameters(fit_distributed(mapped, client=processes, **OPTIONS).model) == expected
    assert fit_local(ROWS.tolist(), **OPTIONS).model.n_features == 12
    with pytest.raises(TypeError, match=r"data: found builtins.dict, expected the path or URL of a Zarr store"):
        fit_local({"x": ROWS}, **OPTIONS)
    with pytest.raises(ValueError, match=r"sample_dim='row': expected only with data of xarray"):
        fit_local(ROWS, sample_dim="row", **OPTIONS)
