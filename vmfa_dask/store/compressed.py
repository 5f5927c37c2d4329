"""Compressed rows in files of a folder: decoded straight into the block that is asked for, on some threads.

The codecs are those that Zarr uses. Its pipeline decodes into memory of its own for each chunk, which is fresh pages in
a worker process, and copies it: 10.5 µs of a core for a row of 3 kB that takes 4.5 here (docs/decisions/0005). May
import: numpy, zarr, numcodecs, store.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, ZstdCodec

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.decoding import blosc_into, zstd_into
from vmfa_dask.store.files import ChunkFiles, codecs_of_rows

_ZSTD = (ZstdCodec, numcodecs.zstd.Zstd)
_BLOSC = (BloscCodec, numcodecs.blosc.Blosc)
_ROOM_TO_GROW = 1.25


class CompressedFiles:
    """The files of an array whose chunks are whole rows, compressed.

    Parameters
    ----------
    array : an array for which `are_rows` holds
    refuse_missing : whether a chunk that a shard leaves out is an error; else it holds fill values
    """

    def __init__(self, array: zarr.Array[Any], refuse_missing: bool = True) -> None:
        self._array, self._files, self._own = array, ChunkFiles(array, refuse_missing), threading.local()
        codecs = codecs_of_rows(array)
        assert codecs is not None
        self._decode_into = zstd_into if isinstance(codecs[0], _ZSTD) else blosc_into
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
            Naming the file that cannot be decoded to its rows, or a shard whose index is damaged.
        OSError
            When a file cannot be read.
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
            n_bytes = self._files.chunk_rows * out[:1].nbytes
            if place[1] > _most_stored(n_bytes):
                raise ChunkDamaged(f"chunk {self._files.key(number)} has {place[1]} bytes for {n_bytes} decoded ones")
            stored = self._memory(place[1])
            self._files.read_exactly(file, number, place[0], stored.data)
        if out.nbytes == n_bytes:
            self._decode(number, stored, out.reshape(-1).view(np.uint8))
        else:  # the last chunk is stored as long as the others
            whole = np.empty(n_bytes, np.uint8)
            self._decode(number, stored, whole)
            out.reshape(-1).view(np.uint8)[:] = whole[: out.nbytes]
        return place[1]

    def _decode(self, number: int, stored: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        try:
            self._decode_into(stored, out)
        except (ValueError, RuntimeError) as error:
            raise ChunkDamaged(f"chunk {self._files.key(number)}: it cannot be decoded: {error}") from error

    def _memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Memory of this thread for a stored chunk, the same each time where that is possible."""
        known: NDArray[np.uint8] | None = getattr(self._own, "memory", None)
        if known is None or len(known) < n_bytes:
            known = self._own.memory = np.empty(int(_ROOM_TO_GROW * n_bytes), np.uint8)
        return known[:n_bytes]


def _most_stored(n_bytes: int) -> int:
    """Bytes of a stored chunk, at most: the codecs make nothing much longer."""
    return 2 * n_bytes + 2**20
