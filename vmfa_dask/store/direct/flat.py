"""Uncompressed rows, read straight into the block that is asked for.

An uncompressed chunk is its rows one after the other, and a shard is such chunks and an index, so any range of rows is
a few ranges of bytes. May import: numpy, store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.direct.chunk_files import ChunkFile
from vmfa_dask.store.direct.reader import DirectReader


@dataclass(frozen=True)
class _Extent:
    """Rows ``start:stop`` of a file, and the byte at which they begin; `offset` is None where a shard left them out."""

    start: int
    stop: int
    offset: int | None


class FlatReader(DirectReader):
    """Reader of an array whose chunks are not compressed; parameters as `DirectReader`."""

    reads_parts = True

    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Read a range of rows, see `DirectReader.read`; one system call for rows that follow one another in a file."""
        total, file_rows = 0, self._files.file_rows
        for number in range(start // file_rows, (stop - 1) // file_rows + 1):
            first_row = number * file_rows
            low, high = max(start, first_row), min(stop, first_row + file_rows)
            rows = out[low - start : high - start]
            with self._files.opened(number) as file:
                if file is None:
                    rows[...] = self._files.fill_value
                else:
                    total += self._read_file(file, low - first_row, high - first_row, rows)
        return total

    def _read_file(self, file: ChunkFile, start: int, stop: int, out: NDArray[Any]) -> int:
        """Rows ``start:stop`` of a file; returns the bytes that were read."""
        total = 0
        for extent in self._extents(file, start, stop):
            rows = out[extent.start - start : extent.stop - start]
            if extent.offset is None:
                rows[...] = self._files.fill_value
                continue
            file.read_into(extent.offset, rows.reshape(-1).view(np.uint8))
            total += rows.nbytes
        return total

    def _extents(self, file: ChunkFile, start: int, stop: int) -> Iterator[_Extent]:
        """Where rows ``start:stop`` of a file lie; chunks that follow one another make one extent."""
        chunk_rows, row_bytes = self._files.chunk_rows, self._files.row_bytes
        extent: _Extent | None = None
        for chunk in range(start // chunk_rows, (stop - 1) // chunk_rows + 1):
            first_row = chunk * chunk_rows
            low, high = max(start, first_row), min(stop, first_row + chunk_rows)
            chunk_offset = self._chunk_offset(file, chunk)
            offset = None if chunk_offset is None else chunk_offset + (low - first_row) * row_bytes
            if extent is not None and _follows(extent, offset, row_bytes):
                extent = _Extent(extent.start, high, extent.offset)
                continue
            if extent is not None:
                yield extent
            extent = _Extent(low, high, offset)
        if extent is not None:
            yield extent

    def _chunk_offset(self, file: ChunkFile, chunk: int) -> int | None:
        """Byte at which a chunk begins, once its length is known to be right."""
        extent = self._files.locate(file, chunk)
        if extent is None:
            return None
        (offset, length), expected = extent, self._files.chunk_bytes
        if length != expected:
            which = f" for number {chunk} of its chunks" if self._files.is_sharded else ""
            short = "is cut short: it " if length < expected else ""
            raise ChunkDamaged(f"chunk {file.key} {short}holds {length} bytes{which}, expected {expected}")
        if self._files.stray_bytes(file):
            raise ChunkDamaged(f"chunk {file.key} has bytes between or behind its chunks of {expected} bytes")
        return offset


def _follows(extent: _Extent, offset: int | None, row_bytes: int) -> bool:
    if extent.offset is None or offset is None:
        return extent.offset is None and offset is None
    return offset == extent.offset + (extent.stop - extent.start) * row_bytes
