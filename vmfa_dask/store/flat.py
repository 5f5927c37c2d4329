"""Uncompressed rows in files of a folder: read where they lie, straight into the block that is asked for.

A chunk of whole rows without a compressor is its rows one after the other, and a shard is such chunks and an index.
Zarr's own way copies them twice more (docs/decisions/0005). May import: numpy, zarr, google_crc32c.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.storage import LocalStore

_NOT_STORED = 2**64 - 1
_CHECKSUM_BYTES = 4
# One call may read less than this on Linux, never more.
_MOST_BYTES = 2**30


class ChunkMissing(FileNotFoundError):
    """A chunk that belongs to the array is not in its store."""


@dataclass(frozen=True)
class _Extent:
    """Rows ``start:stop`` of the array and where they begin in a file; `place` is None where a shard left them out."""

    start: int
    stop: int
    place: int | None


class FlatFiles:
    """The files of an array whose bytes are its rows.

    Parameters
    ----------
    array : an array for which `are_rows` holds
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array
        self._root = os.path.join(str(array.store.root), array.path)  # type: ignore[attr-defined]
        self._file_rows = (array.shards or array.chunks)[0]
        self._chunk_rows = array.chunks[0]
        self._row_bytes = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
        self._indices: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def are_rows(array: zarr.Array[Any]) -> bool:
        """Whether the files hold whole rows in the order of memory, and nothing but an index of shards beside them."""
        native = array.dtype.isnative and sys.byteorder == "little"
        return (
            isinstance(array.store, LocalStore)
            and hasattr(os, "preadv")
            and native
            and array.chunks[1:] == array.shape[1:]
            and (_is_plain_v2(array) if array.metadata.zarr_format == 2 else _is_plain_v3(array))
        )

    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Read rows ``start:stop`` into out (stop − start, D); returns the bytes that were read.

        Raises
        ------
        ChunkMissing
            Naming the file that is not there.
        OSError
            Naming the file that cannot be read, is cut short, or is a shard whose index is damaged.
        """
        total = 0
        for number in range(start // self._file_rows, (stop - 1) // self._file_rows + 1):
            first = number * self._file_rows
            low, high = max(start, first), min(stop, first + self._file_rows)
            total += self._read_file(number, low, high, out[low - start : high - start])
        return total

    def key(self, number: int) -> str:
        """Key of the file with the rows of a chunk or shard."""
        return self._array.metadata.encode_chunk_key((number, *(0,) * (self._array.ndim - 1)))

    def _read_file(self, number: int, low: int, high: int, out: NDArray[Any]) -> int:
        path, total = os.path.join(self._root, self.key(number)), 0
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise ChunkMissing(f"chunk {self.key(number)} is not stored") from error
        try:
            for extent in self._extents(file, number, low, high):
                part = out[extent.start - low : extent.stop - low]
                if extent.place is None:
                    part[...] = self._array.fill_value
                    continue
                _read_exactly(file, extent.place, part.reshape(-1).view(np.uint8).data, self.key(number))
                total += part.nbytes
        finally:
            os.close(file)
        return total

    def _extents(self, file: int, number: int, low: int, high: int) -> Iterator[_Extent]:
        """Where rows ``low:high`` lie, joined where chunks of a shard follow one another."""
        first = number * self._file_rows
        if self._array.shards is None:
            yield _Extent(low, high, (low - first) * self._row_bytes)
            return
        index, waiting = self._index(file, number), None
        for chunk in range((low - first) // self._chunk_rows, (high - 1 - first) // self._chunk_rows + 1):
            begin = first + chunk * self._chunk_rows
            start, stop = max(low, begin), min(high, begin + self._chunk_rows)
            stored = int(index[chunk, 0]) != _NOT_STORED
            place = int(index[chunk, 0]) + (start - begin) * self._row_bytes if stored else None
            if waiting is not None and _follows(waiting, place, self._row_bytes):
                waiting = _Extent(waiting.start, stop, waiting.place)
                continue
            if waiting is not None:
                yield waiting
            waiting = _Extent(start, stop, place)
        if waiting is not None:
            yield waiting

    def _index(self, file: int, number: int) -> NDArray[np.uint64]:
        """Place and length of each chunk of a shard, (chunks, 2), read once; its checksum is compared."""
        with self._lock:
            if number not in self._indices:
                n_chunks = self._file_rows // self._chunk_rows
                n_bytes, size = 16 * n_chunks, os.fstat(file).st_size
                raw = bytearray(n_bytes + _CHECKSUM_BYTES)
                _read_exactly(file, size - len(raw), memoryview(raw), self.key(number))
                index = np.frombuffer(bytes(raw[:n_bytes]), "<u8").reshape(n_chunks, 2)
                lengths = index[:, 1][index[:, 0] != _NOT_STORED]
                if (
                    _checksum(raw[:n_bytes]) != bytes(raw[n_bytes:])
                    or (lengths != self._chunk_rows * self._row_bytes).any()
                ):
                    raise OSError(f"chunk {self.key(number)}: the index of the shard is damaged")
                self._indices[number] = index
            return self._indices[number]


def _follows(extent: _Extent, place: int | None, row_bytes: int) -> bool:
    if extent.place is None or place is None:
        return extent.place is None and place is None
    return place == extent.place + (extent.stop - extent.start) * row_bytes


def _read_exactly(file: int, place: int, target: memoryview, name: str) -> None:
    if place < 0:
        raise OSError(f"chunk {name} is cut short: it is smaller than its index")
    done = 0
    while done < len(target):
        found = os.preadv(file, [target[done : done + _MOST_BYTES]], place + done)
        if found == 0:
            raise OSError(f"chunk {name} is cut short: it ends at byte {place + done}")
        done += found


def _checksum(raw: bytearray) -> bytes:
    return int(google_crc32c.value(bytes(raw))).to_bytes(_CHECKSUM_BYTES, "little")


def _is_plain_v2(array: zarr.Array[Any]) -> bool:
    metadata: Any = array.metadata
    return metadata.compressor is None and not metadata.filters and metadata.order == "C"


def _is_plain_v3(array: zarr.Array[Any]) -> bool:
    metadata: Any = array.metadata
    codecs = metadata.codecs
    if len(codecs) == 1 and isinstance(codecs[0], ShardingCodec):
        shard = codecs[0]
        plain_index = [type(codec) for codec in shard.index_codecs] == [BytesCodec, Crc32cCodec]
        if not plain_index or shard.index_location.value != "end":
            return False
        codecs = shard.codecs
    return len(codecs) == 1 and isinstance(codecs[0], BytesCodec) and _is_little(codecs[0])


def _is_little(codec: BytesCodec) -> bool:
    return codec.endian is None or codec.endian.value == "little"
