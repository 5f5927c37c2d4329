"""Where the chunks of an array lie in the files of a folder. May import: numpy, zarr, store."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.codec import Codec
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.storage import LocalStore

from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing
from vmfa_dask.store.regular import irregular
from vmfa_dask.store.shards import layout_of

_NOT_STORED = 2**64 - 1
# One call may read less than this on Linux, never more.
_MOST_BYTES = 2**30


class ChunkFiles:
    """The files of an array of which each chunk holds whole rows: one chunk each, or a shard of them and its index.

    Parameters
    ----------
    array : an array for which `codecs_of_rows` finds something
    refuse_missing : whether a chunk that a shard leaves out is an error; else it holds fill values
    """

    def __init__(self, array: zarr.Array[Any], refuse_missing: bool) -> None:
        self._array, self._layout, self._refuse_missing = array, layout_of(array), refuse_missing
        self._root = os.path.join(str(array.store.root), array.path)  # type: ignore[attr-defined]
        self.chunk_rows: int = array.chunks[0]
        self.file_rows: int = (array.shards or array.chunks)[0]
        self._indices: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    def key(self, number: int) -> str:
        """Key of the file with the rows of a chunk or shard."""
        return self._array.metadata.encode_chunk_key(self._place(number))

    @contextmanager
    def opened(self, number: int) -> Iterator[int]:
        """Descriptor of a file.

        Raises
        ------
        ChunkMissing
            Naming the file that is not there.
        ChunkDamaged
            Naming what is no regular file.
        """
        path = os.path.join(self._root, self.key(number))
        kind = irregular(path)
        if kind is not None:
            raise ChunkDamaged(f"chunk {self.key(number)} is {kind}, expected a regular file")
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise ChunkMissing(f"chunk {self.key(number)} is not stored") from error
        try:
            yield file
        finally:
            os.close(file)

    def place(self, file: int, number: int, chunk: int) -> tuple[int, int] | None:
        """Where a chunk of a file begins and how many bytes it has; None where the shard left it out.

        Raises
        ------
        ChunkDamaged
            Naming the shard whose index is damaged.
        ChunkMissing
            Naming the shard that leaves out chunks, where that is refused.
        """
        if self._layout is None:
            return 0, os.fstat(file).st_size
        start, length = self._index(file, number)[chunk].tolist()
        return None if start == _NOT_STORED else (start, length)

    def rest(self, file: int, n_bytes: int) -> int:
        """Bytes of a file beside its index that make no whole chunk of `n_bytes`."""
        of_index = 0 if self._layout is None else self._layout.n_bytes
        return (os.fstat(file).st_size - of_index) % n_bytes

    def _index(self, file: int, number: int) -> NDArray[np.uint64]:
        """Place and length of each chunk of a shard, (chunks, 2), read and checked once."""
        assert self._layout is not None
        with self._lock:
            if number not in self._indices:
                size = os.fstat(file).st_size
                raw = bytearray(self._layout.n_bytes)
                self.read_exactly(file, number, self._layout.begin(size), memoryview(raw))
                index = self._layout.read(self.key(number), bytes(raw), size)
                if self._refuse_missing:
                    self._layout.refuse_absent(self.key(number), index, self._place(number))
                self._indices[number] = index
            return self._indices[number]

    def _place(self, number: int) -> tuple[int, ...]:
        return (number, *(0,) * (self._array.ndim - 1))

    def read_exactly(self, file: int, number: int, place: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `place` on.

        Raises
        ------
        ChunkDamaged
            Naming the file that is cut short.
        """
        if place < 0:
            raise ChunkDamaged(f"chunk {self.key(number)} is cut short: it is smaller than its index")
        done = 0
        while done < len(target):
            found = os.preadv(file, [target[done : done + _MOST_BYTES]], place + done)
            if found == 0:
                raise ChunkDamaged(f"chunk {self.key(number)} is cut short: it ends at byte {place + done}")
            done += found


def codecs_of_rows(array: zarr.Array[Any]) -> tuple[Any, ...] | None:
    """What has made the bytes of a chunk out of its rows, as they lie in memory in its dtype: compressors, or ().

    None where chunks do not hold whole rows so, or are not files of a folder.
    """
    readable = isinstance(array.store, LocalStore) and hasattr(os, "preadv")
    if not readable or array.chunks[1:] != array.shape[1:]:
        return None
    if array.metadata.zarr_format == 2:  # the byte order of its chunks is that of its dtype
        return _codecs_v2(array.metadata)
    return _codecs_v3(array.metadata) if sys.byteorder == "little" else None


def _codecs_v2(metadata: Any) -> tuple[Any, ...] | None:
    if metadata.filters or metadata.order != "C":
        return None
    return () if metadata.compressor is None else (metadata.compressor,)


def _codecs_v3(metadata: Any) -> tuple[Codec, ...] | None:
    codecs: tuple[Codec, ...] = metadata.codecs
    if len(codecs) == 1 and isinstance(codecs[0], ShardingCodec):
        shard = codecs[0]
        plain_index = [type(codec) for codec in shard.index_codecs] == [BytesCodec, Crc32cCodec]
        whole_rows = metadata.chunk_grid.chunk_shape[1:] == shard.chunk_shape[1:]
        if not plain_index or not whole_rows or shard.index_location.value != "end":
            return None
        codecs = shard.codecs
    return codecs[1:] if isinstance(codecs[0], BytesCodec) and _is_little(codecs[0]) else None


def _is_little(codec: BytesCodec) -> bool:
    return codec.endian is None or codec.endian.value == "little"
