"""Compressed rows in files of a folder: decoded straight into the block that is asked for, on some threads.

The codecs are those that Zarr uses. Its pipeline decodes into memory of its own for each chunk, which is fresh pages in
a worker process, and copies it: 10.5 µs of a core for a row of 3 kB that takes 4.5 here (docs/decisions/0005). May
import: numpy, zarr, numcodecs, store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, ZstdCodec

from vmfa_dask.store.files import ChunkFiles, codecs_of_rows

_ZSTD = (ZstdCodec, numcodecs.zstd.Zstd)
_BLOSC = (BloscCodec, numcodecs.blosc.Blosc)
_ROOM_TO_GROW = 1.25


class CompressedFiles:
    """The files of an array whose chunks are whole rows, compressed.

    Parameters
    ----------
    array : an array for which `are_rows` holds
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array, self._files, self._own = array, ChunkFiles(array), threading.local()
        self._decode = _decoder(array)
        self._pool: ThreadPoolExecutor | None = None
        self.threads = 1

    @staticmethod
    def are_rows(array: zarr.Array[Any]) -> bool:
        """Whether the files hold whole rows, compressed by one of the codecs that decode into given memory."""
        codecs = codecs_of_rows(array)
        return codecs is not None and len(codecs) == 1 and isinstance(codecs[0], (*_ZSTD, *_BLOSC))

    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Decode rows ``start:stop``, which begin and end with chunks or with the last row, into out (stop − start, D).

        Returns
        -------
        The stored bytes that were read.

        Raises
        ------
        ChunkMissing
            Naming the file that is not there.
        ChunkDamaged
            Naming the file that is cut short, or a shard whose index is damaged.
        OSError, ValueError, RuntimeError
            When a chunk cannot be read or decoded.
        """
        size = self._files.chunk_rows
        parts = [(first, out[first - start : first - start + size]) for first in range(start, stop, size)]
        if self.threads == 1 or len(parts) == 1:
            return sum(self._read_chunk(*part) for part in parts)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="vmfa-decode")
        return sum(self._pool.map(lambda part: self._read_chunk(*part), parts))

    def _read_chunk(self, first: int, out: NDArray[Any]) -> int:
        number = first // self._files.file_rows
        with self._files.opened(number) as file:
            place = self._files.place(file, number, first % self._files.file_rows // self._files.chunk_rows)
            if place is None:
                out[...] = self._array.fill_value
                return 0
            stored = self._memory(place[1])
            self._files.read_exactly(file, number, place[0], stored.data)
        n_bytes = self._files.chunk_rows * out[:1].nbytes
        if out.nbytes == n_bytes:
            self._decode(stored, out.reshape(-1).view(np.uint8))
        else:  # the last chunk is stored as long as the others
            whole = np.empty(n_bytes, np.uint8)
            self._decode(stored, whole)
            out.reshape(-1).view(np.uint8)[:] = whole[: out.nbytes]
        return place[1]

    def _memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Memory of this thread for a stored chunk, the same each time where that is possible."""
        known: NDArray[np.uint8] | None = getattr(self._own, "memory", None)
        if known is None or len(known) < n_bytes:
            known = self._own.memory = np.empty(int(_ROOM_TO_GROW * n_bytes), np.uint8)
        return known[:n_bytes]


def _decoder(array: zarr.Array[Any]) -> Callable[[NDArray[np.uint8], NDArray[np.uint8]], None]:
    """Decodes a stored chunk into memory of the size that it must have."""
    codecs = codecs_of_rows(array)
    assert codecs is not None
    zstd = isinstance(codecs[0], _ZSTD)
    size_of, decompress = (_zstd_size, numcodecs.zstd.decompress) if zstd else (_blosc_size, numcodecs.blosc.decompress)

    def decode(stored: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        found = size_of(stored)
        if found != len(out):  # the codecs leave the rest of larger memory as it was
            raise ValueError(f"a chunk holds {found} bytes, expected {len(out)}")
        decompress(stored, out)

    return decode


def _blosc_size(stored: NDArray[np.uint8]) -> int:
    """Size of the content, from the header."""
    return int.from_bytes(stored[4:8].tobytes(), "little")


def _zstd_size(stored: NDArray[np.uint8]) -> int | None:
    """Size of the content, from the header of the frame (RFC 8878, 3.1.1.1); None where that does not tell."""
    header = stored[:18].tobytes()
    if len(header) < 6 or header[:4] != b"\x28\xb5\x2f\xfd":
        return None
    single, flag = header[4] >> 5 & 1, header[4] >> 6
    n_bytes = (single, 2, 4, 8)[flag]
    if n_bytes == 0:
        return None
    begin = 5 + (1 - single) + (0, 1, 2, 4)[header[4] & 3]
    return int.from_bytes(header[begin : begin + n_bytes], "little") + (256 if flag == 1 else 0)
