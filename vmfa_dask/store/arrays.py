"""Arrays that are written once and read whole: one chunk with a checksum, refused when it is gone or was changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec


def open_group(path: str, target: Any = None) -> zarr.Group:
    """Open a group for reading.

    Parameters
    ----------
    path : where it is, for messages
    target : what zarr opens; by default `path`

    Raises
    ------
    FileNotFoundError
        When there is no group.
    ValueError
        Naming the folder when its metadata cannot be read.
    """
    try:
        return zarr.open_group(path if target is None else target, mode="r")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: its zarr.json is damaged: {type(error).__name__}: {error}") from error


def write_array(group: zarr.Group, name: str, array: NDArray[Any], dimensions: tuple[str, ...] | None = None) -> None:
    """Store an array in a group, with the names of its dimensions for xarray."""
    chunks = tuple(max(1, n) for n in array.shape)
    # A chunk that equals the fill value would not be written, and a chunk that is gone would be read as fill values.
    stored = group.create_array(
        name,
        shape=array.shape,
        dtype=array.dtype,
        chunks=chunks,
        dimension_names=dimensions,
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    if array.size:
        stored[...] = array


def read_array(group: zarr.Group, name: str, where: str) -> NDArray[Any]:
    """Read an array that `write_array` stored; the result is read-only.

    Raises
    ------
    ValueError
        Naming the array when it is missing, incomplete, or when its bytes are not those that were written.
    """
    try:
        stored = group.get(name)
    except Exception as error:
        raise ValueError(f"{where}: zarr.json of the array {name!r} is damaged: {error}") from error
    if not isinstance(stored, zarr.Array):
        raise ValueError(f"{where}: the array {name!r} is missing; the file is incomplete")
    array: NDArray[Any] = np.empty(stored.shape, stored.dtype)
    if stored.size:
        if stored.nchunks_initialized < stored.nchunks:
            raise ValueError(f"{where}: the array {name!r} lacks numbers; the file is incomplete")
        try:
            array = np.asarray(stored[...])
        except Exception as error:
            raise ValueError(f"{where}: the array {name!r} is damaged: {type(error).__name__}: {error}") from error
    array.flags.writeable = False
    return array
