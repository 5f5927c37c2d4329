"""The rows of a fit, from data in any form.

Rows in a Zarr store are read there, and a NumPy array stays in memory. A Dask array is first written to a temporary
store, chunk by chunk on its workers, because every pass reads the rows again. `store.gate` decides what can be rows.
May import: run, store, cluster, numpy, zarr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import zarr

from vmfa_dask.cluster.worker_rows import write_rows
from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.store.gate import InMemory, Lazy, Stored, admit, is_dask_frame
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.scratch import scratch_folder

_MISSING_CHUNKS = ("refuse", "fill")
_CHUNK_BYTES = 2**22


@contextmanager
def opened_rows(
    data: Any,
    array: str | None = None,
    sample_dim: str | None = None,
    missing_chunks: str = "refuse",
    client: Any = None,
    scratch: str | None = None,
    label: str = "data",
) -> Iterator[RowSource]:
    """Open the rows of a fit for the enclosed lines; a temporary store is removed after them.

    Parameters
    ----------
    data, array, sample_dim, missing_chunks
        As in `fit_distributed`.
    client : distributed.Client, optional
        Whose workers compute and write Dask data; by default Dask's own scheduler does.
    scratch : str, optional
        Folder for a temporary store; by default the temporary folder of this machine.
    label : str
        What the rows are called in messages.

    Yields
    ------
    RowSource
        `ZarrRows` where any process can open the rows, `ArrayRows` where they are in memory.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        Naming what was found and what is expected.
    """
    if missing_chunks not in _MISSING_CHUNKS:
        raise ValueError(f"missing_chunks={missing_chunks!r}: expected one of {_MISSING_CHUNKS}")
    counts_rows = client is not None and is_dask_frame(data)  # of its partitions, on the workers that hold them
    with client.as_current() if counts_rows else nullcontext():
        form = admit(label, data, array, sample_dim)
    if isinstance(form, Lazy):
        with _written(form, client, scratch) as rows:
            yield rows
    else:
        yield _opened(form, missing_chunks)


def _opened(form: Stored | InMemory, missing_chunks: str) -> RowSource:
    if isinstance(form, InMemory):
        return ArrayRows(form.values, origin=form.origin)
    rows = ZarrRows(form.url, form.name, missing=missing_chunks)
    rows.check_complete()
    return rows


@contextmanager
def _written(form: Lazy, client: Any, scratch: str | None) -> Iterator[RowSource]:
    """A Dask array as a temporary Zarr array, written by its own workers."""
    with scratch_folder("rows", scratch) as folder:
        target = _new_array(f"{folder}/rows.zarr", form.array.shape, form.array.dtype)
        write_rows(form.array, target, client)
        rows = ZarrRows(f"{folder}/rows.zarr", origin=form.origin)
        try:
            rows.check_complete()
        except ValueError as error:
            raise FileNotFoundError(
                f"data: not all workers that hold the dask array see the folder {folder}, where it is stored for the "
                "fit; pass scratch=folder that all machines share"
            ) from error
        yield rows


def _new_array(path: str, shape: tuple[int, ...], dtype: Any) -> zarr.Array[Any]:
    """An empty Zarr array for the rows of one fit."""
    chunk_rows = max(1, _CHUNK_BYTES // max(1, int(np.prod(shape[1:])) * np.dtype(dtype).itemsize))
    return zarr.create_array(
        zarr_target(path),
        shape=shape,
        dtype=dtype,
        chunks=(min(chunk_rows, shape[0]), *shape[1:]),
        compressors=None,
        config={"write_empty_chunks": True},  # so that a missing chunk is one that was written elsewhere
    )


def spill(rows: ArrayRows, path: str) -> ZarrRows:
    """Write rows in memory to a folder for workers in other processes; memory maps are read row block by row block.

    Parameters
    ----------
    rows : ArrayRows
        The rows.
    path : str
        Folder of the new Zarr array.

    Returns
    -------
    ZarrRows
        The same rows; messages call them what they called `rows`.

    Raises
    ------
    OSError
        When the folder cannot be written.
    """
    target = _new_array(path, (rows.n_rows, *rows.feature_shape), rows.dtype)
    chunk_rows = target.chunks[0]
    for start in range(0, rows.n_rows, chunk_rows):
        stop = min(start + chunk_rows, rows.n_rows)
        target[start:stop] = rows.read(start, stop).reshape(stop - start, *rows.feature_shape)
    return ZarrRows(path, origin=rows.origin)
