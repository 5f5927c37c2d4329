"""Copies rows from files to the shards of an uncompressed array, without arrays between them.

Such a shard is the rows of its chunks one after the other and an index of the chunks. Zarr would hold it in memory
three times and take ten times as long. Imports google_crc32c, NumPy and Zarr.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import google_crc32c
import numpy as np
import zarr

_NOT_STORED = 2**64 - 1
_BUFFER_BYTES = 2**20


class Extent(NamedTuple):
    """A range of bytes of a file.

    Parameters
    ----------
    path : path
        The file.
    start : int
        Offset of the first byte.
    n_bytes : int
        Length.
    """

    path: Path
    start: int
    n_bytes: int


def write_raw_shard(file: Path, array: zarr.Array[Any], extents: Iterable[Extent]) -> None:
    """Write a shard of an array without compressors by copying bytes.

    The file gets its name when it is complete.

    Parameters
    ----------
    file : path
        The file of the shard.
    array : zarr.Array
        Sharded along its first axis only, with the index at the end of a shard (Zarr's default).
    extents : iterable of Extent
        The bytes of the rows in order, at most one shard of them. The last chunk is padded with zeros.

    Raises
    ------
    ValueError
        If a file ends too early.
    """
    assert array.shards is not None
    chunk_bytes = int(np.prod(array.chunks, dtype=np.int64)) * array.dtype.itemsize
    n_chunks = array.shards[0] // array.chunks[0]
    partial = file.with_name(f"{file.name}.{uuid.uuid4().hex}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb", buffering=0) as out:
            n_bytes = sum(_copy(extent, out) for extent in extents)
            stored = -(-n_bytes // chunk_bytes)
            out.truncate(stored * chunk_bytes)
            out.seek(0, os.SEEK_END)
            _write(out, memoryview(_index(n_chunks, stored, chunk_bytes)))
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def _copy(extent: Extent, out: IO[bytes]) -> int:
    buffer, left = memoryview(bytearray(_BUFFER_BYTES)), extent.n_bytes
    with extent.path.open("rb", buffering=0) as source:
        source.seek(extent.start)
        while left:
            n = source.readinto(buffer[:left])
            if not n:
                raise ValueError(f"{extent.path}: ends {left} bytes before its rows do")
            _write(out, buffer[:n])
            left -= n
    return extent.n_bytes


def _write(out: IO[bytes], view: memoryview) -> None:
    """Write everything; a single call may write less."""
    while view:
        view = view[out.write(view) :]


def _index(n_chunks: int, stored: int, chunk_bytes: int) -> bytes:
    """Offset and size of each chunk, and a checksum."""
    index = np.full((n_chunks, 2), _NOT_STORED, "<u8")
    index[:stored, 0] = np.arange(stored, dtype=np.uint64) * np.uint64(chunk_bytes)
    index[:stored, 1] = chunk_bytes
    raw = index.tobytes()
    return raw + int(google_crc32c.value(raw)).to_bytes(4, "little")
