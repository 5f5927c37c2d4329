"""Zarr arrays of rows that the functions of a model make. May import: zarr, store."""

from __future__ import annotations

import os
from typing import Any

import zarr

from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate


def create_rows(path: str | os.PathLike[str], shape: tuple[int, ...], chunk_rows: int) -> zarr.Array[Any]:
    """Create a Zarr array of float64 for rows that are written chunk by chunk.

    Parameters
    ----------
    path : path-like
        Folder of the array, or URL of an object store.
    shape : tuple of int
        Rows, then the shape of one.
    chunk_rows : int
        Rows of a chunk, where there are as many.

    Returns
    -------
    zarr.Array
        With chunks of whole rows; each is stored once it is written, whatever it holds.

    Raises
    ------
    FileExistsError
        When something is at `path`.
    OSError
        When nothing can be written there.
    """
    url = locate(path)
    if os.path.lexists(url):
        raise FileExistsError(f"{url}: exists already; name a path where nothing is")
    try:
        return zarr.create_array(
            zarr_target(url),
            shape=shape,
            dtype="float64",
            chunks=(min(chunk_rows, shape[0]), *shape[1:]),
            config={"write_empty_chunks": True},  # so that a missing chunk is one that was lost
        )
    except zarr.errors.ContainsArrayError as error:
        raise FileExistsError(f"{url}: exists already; name a path where nothing is") from error
