"""Data in the forms in which users hold it, as a source of rows.

What lies in a Zarr store is opened where it lies; a NumPy array stays in memory; a Dask array is written to a temporary
store first, chunk by chunk on its workers, as every pass reads the rows again. May import: values, em, store, cluster.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore, MemoryStore

from vmfa_dask.cluster.arrays import has_known_rows, write_rows
from vmfa_dask.em.rows import ArrayRows, RowSource
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.values import check_table

# Names of a first dimension that leave no doubt about what it counts.
_SAMPLE_NAMES = ("sample", "samples", "row", "rows", "n", "obs", "observation", "observations", "image", "images")
_MISSING = ("refuse", "fill")
_CHUNK_BYTES = 2**22


def in_a_store(data: Any) -> bool:
    """Whether any process can open the data by its path or URL."""
    if isinstance(data, zarr.Array | zarr.Group):
        return isinstance(data.store, LocalStore)
    return isinstance(data, str | os.PathLike)


@contextmanager
def opened_rows(
    data: Any,
    array: str | None = None,
    sample_dim: str | None = None,
    missing_chunks: str = "refuse",
    client: Any = None,
    scratch: str | None = None,
) -> Iterator[RowSource]:
    """Rows of a fit's `data`; arguments as `fit_distributed`. What was stored for them is removed in the end.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        Naming what was found and what is expected.
    """
    if missing_chunks not in _MISSING:
        raise ValueError(f"missing_chunks={missing_chunks!r}: expected one of {_MISSING}")
    kind = type(data).__module__.partition(".")[0]
    if kind == "xarray":
        data, array = _samples_first(data, array, sample_dim), None
        kind = type(data).__module__.partition(".")[0]
    elif sample_dim is not None:
        raise ValueError(f"sample_dim={sample_dim!r}: expected only with data of xarray; rows are the first axis")
    if kind == "dask" and hasattr(data, "to_zarr"):
        with _stored(data, client, scratch) as rows:
            yield rows
    else:
        yield _open(data, array, missing_chunks)


def _open(data: Any, array: str | None, missing_chunks: str) -> RowSource:
    if isinstance(data, zarr.Array | zarr.Group):
        data = _place_of(data)
    if isinstance(data, str | os.PathLike):
        rows = ZarrRows(locate(data), array, missing=missing_chunks)
        rows.check_complete()
        return rows
    if isinstance(data, np.ndarray):
        return ArrayRows(data)
    raise TypeError(
        f"data: found {type(data).__module__}.{type(data).__name__}, expected the path or URL of a Zarr store, an "
        "array of zarr, xarray, dask or NumPy, a group of zarr or a data set of xarray"
    )


def _place_of(node: zarr.Array[Any] | zarr.Group) -> Any:
    """Path of an array or group in a folder; the values of an array in memory."""
    if isinstance(node.store, LocalStore):
        return os.path.join(node.store.root, node.path)
    if isinstance(node.store, MemoryStore) and isinstance(node, zarr.Array):
        return np.asarray(node[...])
    raise TypeError(
        f"data: a {type(node).__name__} of zarr in {node.store}; workers cannot open it by that: pass its path or URL"
    )


def _samples_first(data: Any, array: str | None, sample_dim: str | None) -> Any:
    """NumPy or Dask array of an xarray variable, the dimension that counts samples in front."""
    if hasattr(data, "data_vars"):
        names = [str(name) for name in data.data_vars]
        name = names[0] if array is None and len(names) == 1 else array
        if name not in names:
            raise ValueError(
                f"data: a Dataset with the variables {', '.join(map(repr, names)) or 'none'}; choose one by the "
                f"argument array=..., found array={array!r}"
            )
        data = data[name]
    elif array is not None:
        raise ValueError(f"array={array!r}: data is a DataArray itself; array=... chooses a variable of a Dataset")
    dims = [str(dim) for dim in data.dims]
    if sample_dim is None and dims and dims[0].lower() in _SAMPLE_NAMES:
        sample_dim = dims[0]
    if sample_dim not in dims:
        raise ValueError(
            f"data: a DataArray with the dimensions {', '.join(map(repr, dims)) or 'none'}; name the one that counts "
            f"samples by sample_dim=..., found sample_dim={sample_dim!r}"
        )
    return data.transpose(sample_dim, ...).data


@contextmanager
def _stored(array: Any, client: Any, scratch: str | None) -> Iterator[RowSource]:
    """A Dask array as a temporary Zarr array, which its own workers write."""
    if not has_known_rows(array):
        raise ValueError(
            "data: a dask array whose chunks have unknown sizes; call data.compute_chunk_sizes() before the fit"
        )
    check_table("data", array.shape, array.dtype)
    folder = tempfile.mkdtemp(prefix="vmfa-rows-", dir=scratch)
    try:
        target = _table(f"{folder}/rows.zarr", array.shape, array.dtype)
        write_rows(array, target, client)
        rows = ZarrRows(f"{folder}/rows.zarr")
        try:
            rows.check_complete()
        except ValueError as error:
            raise FileNotFoundError(
                f"data: not all workers that hold the dask array see the folder {folder}, where it is stored for the "
                "fit; pass scratch=folder that all machines share"
            ) from error
        yield rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _table(path: str, shape: tuple[int, ...], dtype: Any) -> zarr.Array[Any]:
    """An empty Zarr array of rows for the time of a run."""
    size = max(1, _CHUNK_BYTES // max(1, int(np.prod(shape[1:])) * np.dtype(dtype).itemsize))
    return zarr.create_array(
        zarr_target(path),
        shape=shape,
        dtype=dtype,
        chunks=(min(size, shape[0]), *shape[1:]),
        compressors=None,
        config={"write_empty_chunks": True},  # so that a chunk that is missing has not come
    )


def spill(rows: ArrayRows, path: str) -> ZarrRows:
    """Write rows in memory to a folder that workers in other processes see."""
    shape = (rows.n_rows, *rows.feature_shape)
    stored = _table(path, shape, rows.dtype)
    stored[...] = rows.read(0, rows.n_rows).reshape(shape)
    return ZarrRows(path)
