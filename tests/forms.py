"""One table in every form in which users hold rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec
from zarr.storage import MemoryStore, ZipStore

from tests.samples import write_store

STORES: dict[str, dict[str, Any]] = {
    "format 2": {"zarr_format": 2},
    "format 2, plain": {"zarr_format": 2, "compressors": None},
    "format 3": {},
    "format 3, plain": {"compressors": None},
    "shards": {"chunks": 5, "shards": (10, 4)},
    "plain shards": {"chunks": 5, "shards": (10, 4), "compressors": None},
}


def stores(folder: Path, rows: NDArray[Any]) -> Iterator[tuple[str, str]]:
    """Paths of Zarr stores of some rows (n, 4), whose chunks hold them in their byte order."""
    order = "big" if rows.dtype.str[0] == ">" else "little"
    for name, options in STORES.items():
        layout = {"chunks": 7, **options}
        if layout.get("zarr_format") != 2 and "shards" not in layout and rows.dtype.itemsize > 1:
            layout["serializer"] = BytesCodec(endian=order)
        yield name, write_store(folder / f"{name}.zarr", rows, layout.pop("chunks"), **layout)


def every_form(folder: Path, rows: NDArray[Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, data and further arguments of each form of some rows (n, 4)."""
    spread = np.zeros((2 * len(rows), 6), rows.dtype)
    spread[::2, 1:5] = rows
    yield "array", rows, {}
    yield "strides", spread[::2, 1:5], {}
    yield "Fortran", np.asfortranarray(rows), {}
    yield "backwards", rows[::-1].copy()[::-1], {}
    yield "matrix", rows.view(np.matrix), {}
    yield "mask that hides nothing", np.ma.masked_array(rows), {}
    np.save(folder / "x.npy", rows)
    yield "memory map", np.load(folder / "x.npy", mmap_mode="r"), {}
    yield "npy", folder / "x.npy", {}
    np.save(folder / "f.npy", np.asfortranarray(rows))
    yield "npy, Fortran", str(folder / "f.npy"), {}
    for name, path in stores(folder, rows):
        yield name, path, {}
    yield "file URL", f"file://{folder}/format 3.zarr".replace(" ", "%20"), {}
    yield "zarr array", zarr.open_array(folder / "format 2.zarr", mode="r"), {}
    yield "zarr in memory", zarr.create_array(MemoryStore(), data=rows, zarr_format=2, chunks=(7, 4)), {}
    with ZipStore(folder / "x.zip", mode="w") as store:
        zarr.create_array(store, name="deep/x", data=rows, zarr_format=2, chunks=(7, 4))
    yield "zip", folder / "x.zip", {"array": "deep/x"}
    with ZipStore(folder / "x.zip", mode="r") as store:
        yield "zarr group", zarr.open_group(store, mode="r"), {"array": "deep/x"}
    named = xr.DataArray(rows.T, dims=("feature", "time"))
    yield "DataArray", named, {"sample_dim": "time"}
    yield "Dataset", xr.Dataset({"x": named.T, "y": named.T}), {"array": "x", "sample_dim": "time"}
    yield "DataArray of Dask", named.chunk({"time": 6, "feature": 2}), {"sample_dim": "time"}
    yield "Dask", dask.array.from_array(rows, chunks=(9, 3)), {}
