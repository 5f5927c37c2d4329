"""The chunk files of an array in a folder: each holds one chunk, or a shard of chunks and its index.

May import: numpy, zarr, store.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing
from vmfa_dask.store.regular import irregular
from vmfa_dask.store.shards import NOT_STORED, layout_of

# Linux reads at most 2**31 - 4096 bytes per call.
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class ChunkFile:
    """An open chunk file.

    Parameters
    ----------
    key : str
        Key of the chunk or shard, for messages.
    number : int
        Its number along the rows.
    descriptor : int
        Descriptor of the open file.
    n_bytes : int
        Size of the file.
    """

    key: str
    number: int
    descriptor: int
    n_bytes: int

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with bytes of the file.

        Parameters
        ----------
        offset : int
            First byte; negative if the file is shorter than what should be read from its end.
        out : (n,) uint8 array, contiguous
            Filled with n bytes.

        Raises
        ------
        ChunkDamaged
            If the file is cut short.
        """
        if offset < 0:
            raise ChunkDamaged(f"chunk {self.key} is cut short: it is smaller than its index")
        target, done = out.data, 0
        while done < len(target):
            n_read = os.preadv(self.descriptor, [target[done : done + _MOST_BYTES]], offset + done)
            if n_read == 0:
                raise ChunkDamaged(f"chunk {self.key} is cut short: it ends at byte {offset + done}")
            done += n_read


class ChunkFiles:
    """The chunk files of an array of which each chunk holds whole rows.

    Parameters
    ----------
    array : zarr.Array
        An array for which `layouts.row_compressors` is not None.
    refuse_missing : bool
        Whether a chunk that is not stored is an error; otherwise its rows are the fill value.

    Attributes
    ----------
    chunk_rows, file_rows : int
        Rows of a chunk, and of a file.
    row_bytes, chunk_bytes : int
        Bytes of a row and of a decoded chunk; the last chunk is as long as the others.
    fill_value : scalar
        Value of rows that are not stored.
    is_sharded : bool
        Whether a file holds several chunks and their index.
    """

    def __init__(self, array: zarr.Array[Any], refuse_missing: bool) -> None:
        self._array, self._layout, self._refuse_missing = array, layout_of(array), refuse_missing
        self._folder = os.path.join(str(array.store.root), array.path)  # type: ignore[attr-defined]
        self.chunk_rows: int = array.chunks[0]
        self.file_rows: int = (array.shards or array.chunks)[0]
        self.row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize
        self.chunk_bytes = self.chunk_rows * self.row_bytes
        self.fill_value: Any = 0 if array.fill_value is None else array.fill_value
        self.is_sharded = self._layout is not None
        self._indices: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def opened(self, number: int) -> Iterator[ChunkFile | None]:
        """Open a file for a while.

        Parameters
        ----------
        number : int
            Number of the chunk or shard along the rows.

        Yields
        ------
        ChunkFile or None
            None if the file does not exist and its rows are the fill value.

        Raises
        ------
        ChunkMissing
            If the file does not exist, where that is refused.
        ChunkDamaged
            If it is not a regular file.
        OSError
            If it cannot be opened.
        """
        key = self._array.metadata.encode_chunk_key(self._coords(number))
        path = os.path.join(self._folder, key)
        kind = irregular(path)
        if kind is not None:
            raise ChunkDamaged(f"chunk {key} is {kind}, expected a regular file")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError as error:
            if self._refuse_missing:
                raise ChunkMissing(f"chunk {key} is not stored") from error
            yield None
            return
        try:
            yield ChunkFile(key, number, descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def locate(self, file: ChunkFile, chunk: int) -> tuple[int, int] | None:
        """Where a chunk lies in its file.

        Parameters
        ----------
        file : ChunkFile
            The open file.
        chunk : int
            Number of the chunk in the file.

        Returns
        -------
        (offset, length) or None
            In bytes; None if the shard leaves this chunk out.

        Raises
        ------
        ChunkDamaged
            If the index of the shard is damaged.
        ChunkMissing
            If the shard leaves out chunks of the array, where that is refused.
        """
        if self._layout is None:
            return 0, file.n_bytes
        offset, length = self._index(file)[chunk].tolist()
        return None if offset == NOT_STORED else (offset, length)

    def stray_bytes(self, file: ChunkFile) -> int:
        """Bytes of a file of uncompressed chunks that belong to no whole chunk, nor to the index.

        Parameters
        ----------
        file : ChunkFile
            The open file.

        Returns
        -------
        int
            0 for an undamaged file.
        """
        index_bytes = 0 if self._layout is None else self._layout.index_bytes
        return (file.n_bytes - index_bytes) % self.chunk_bytes

    def _index(self, file: ChunkFile) -> NDArray[np.uint64]:
        """Offset and length of each chunk of a shard, (chunks, 2); read and checked once."""
        assert self._layout is not None
        with self._lock:
            if file.number not in self._indices:
                raw = np.empty(self._layout.index_bytes, np.uint8)
                file.read_into(self._layout.index_offset(file.n_bytes), raw)
                index = self._layout.parse(file.key, raw.tobytes(), file.n_bytes)
                if self._refuse_missing:
                    self._layout.refuse_left_out(file.key, index, self._coords(file.number))
                self._indices[file.number] = index
            return self._indices[file.number]

    def _coords(self, number: int) -> tuple[int, ...]:
        return (number, *(0,) * (self._array.ndim - 1))
