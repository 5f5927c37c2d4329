"""Data in the forms in which users hold it, as a source of rows.

What lies in a Zarr store is opened where it lies; a NumPy array stays in memory; a Dask array is written to a temporary
store first, chunk by chunk on its workers, as every pass reads the rows again. What may be rows at all is settled by
`store.gate`. May import: values, em, store, cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore, ZipStore

from vmfa_dask.cluster.arrays import write_rows
from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.store.forms import is_dask_frame
from vmfa_dask.store.gate import InMemory, Lazy, Stored, admit, is_numpy_file
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.scratch import scratch_folder

_MISSING = ("refuse", "fill")
_CHUNK_BYTES = 2**22


def in_a_store(data: Any) -> bool:
    """Whether any process can open the data by its path or URL."""
    if isinstance(data, zarr.Array | zarr.Group):
        return isinstance(data.store, LocalStore | ZipStore)
    return isinstance(data, str | os.PathLike) and not is_numpy_file(locate(data))


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
    counts = client is not None and is_dask_frame(data)  # the rows of its partitions, where they are
    with client.as_current() if counts else nullcontext():
        found = admit("data", data, array, sample_dim)
    if isinstance(found, Lazy):
        with _stored(found, client, scratch) as rows:
            yield rows
    else:
        yield _open(found, missing_chunks)


def _open(found: Stored | InMemory, missing_chunks: str) -> RowSource:
    if isinstance(found, InMemory):
        return ArrayRows(found.values, origin=found.origin)
    rows = ZarrRows(found.url, found.name, missing=missing_chunks)
    rows.check_complete()
    return rows


@contextmanager
def _stored(found: Lazy, client: Any, scratch: str | None) -> Iterator[RowSource]:
    """A Dask array as a temporary Zarr array, which its own workers write."""
    with scratch_folder("rows", scratch) as folder:
        target = _table(f"{folder}/rows.zarr", found.array.shape, found.array.dtype)
        write_rows(found.array, target, client)
        rows = ZarrRows(f"{folder}/rows.zarr", origin=found.origin)
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
    """Write rows in memory to a folder that workers in other processes see; a memory map is read block by block."""
    stored = _table(path, (rows.n_rows, *rows.feature_shape), rows.dtype)
    size = stored.chunks[0]
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        stored[start:stop] = rows.read(start, stop).reshape(stop - start, *rows.feature_shape)
    return ZarrRows(path, origin=rows.origin)
