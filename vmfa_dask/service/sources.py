"""Data in the forms in which users hold it, as a source of rows.

What lies in a Zarr store is opened where it lies; a NumPy array stays in memory; a Dask array is written to a temporary
store first, chunk by chunk on its workers, as every pass reads the rows again. May import: values, em, store, cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore

from vmfa_dask.cluster.arrays import has_known_rows, write_rows
from vmfa_dask.em.rows import ArrayRows, RowSource
from vmfa_dask.store.forms import is_dask_array, is_of_xarray, place_of, samples_first
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.scratch import scratch_folder
from vmfa_dask.values import check_table

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
    if is_of_xarray(data):
        data, array = samples_first("data", data, array, sample_dim), None
    elif sample_dim is not None:
        raise ValueError(f"sample_dim={sample_dim!r}: expected only with data of xarray; rows are the first axis")
    if is_dask_array(data):
        with _stored(data, client, scratch) as rows:
            yield rows
    else:
        yield _open(data, array, missing_chunks)


def _open(data: Any, array: str | None, missing_chunks: str) -> RowSource:
    if isinstance(data, zarr.Array | zarr.Group):
        data = place_of("data", data)
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


@contextmanager
def _stored(array: Any, client: Any, scratch: str | None) -> Iterator[RowSource]:
    """A Dask array as a temporary Zarr array, which its own workers write."""
    if not has_known_rows(array):
        raise ValueError(
            "data: a dask array whose chunks have unknown sizes; call data.compute_chunk_sizes() before the fit"
        )
    check_table("data", array.shape, array.dtype)
    with scratch_folder("rows", scratch) as folder:
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
