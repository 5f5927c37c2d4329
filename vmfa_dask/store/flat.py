"""Uncompressed rows in files of a folder: read where they lie, straight into the block that is asked for.

A chunk of whole rows without a compressor is its rows one after the other, and a shard is such chunks and an index.
Zarr's own way copies them twice more (docs/decisions/0005). May import: numpy, zarr, store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.files import ChunkFiles, codecs_of_rows


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
    refuse_missing : whether a chunk that a shard leaves out is an error; else it holds fill values
    """

    def __init__(self, array: zarr.Array[Any], refuse_missing: bool = True) -> None:
        self._array, self._files = array, ChunkFiles(array, refuse_missing)
        self._row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize

    @staticmethod
    def are_rows(array: zarr.Array[Any]) -> bool:
        """Whether the files hold whole rows in the order of memory, and nothing but an index of shards beside them."""
        return codecs_of_rows(array) == ()

    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Read rows ``start:stop`` into out (stop − start, D); returns the bytes that were read.

        Raises
        ------
        ChunkMissing
            Naming the file that is not there.
        ChunkDamaged
            Naming the file that has another length than its rows, or a shard whose index is damaged.
        OSError
            When a file cannot be read.
        """
        total, file_rows = 0, self._files.file_rows
        for number in range(start // file_rows, (stop - 1) // file_rows + 1):
            low, high = max(start, number * file_rows), min(stop, (number + 1) * file_rows)
            with self._files.opened(number) as file:
                total += self._read_file(file, number, low, high, out[low - start : high - start])
        return total

    def _read_file(self, file: int, number: int, low: int, high: int, out: NDArray[Any]) -> int:
        total = 0
        for extent in self._extents(file, number, low, high):
            part = out[extent.start - low : extent.stop - low]
            if extent.place is None:
                part[...] = self._array.fill_value
                continue
            self._files.read_exactly(file, number, extent.place, part.reshape(-1).view(np.uint8).data)
            total += part.nbytes
        return total

    def _extents(self, file: int, number: int, low: int, high: int) -> Iterator[_Extent]:
        """Where rows ``low:high`` lie, joined where chunks of a shard follow one another."""
        first, chunk_rows, waiting = number * self._files.file_rows, self._files.chunk_rows, None
        for chunk in range((low - first) // chunk_rows, (high - 1 - first) // chunk_rows + 1):
            begin = first + chunk * chunk_rows
            start, stop = max(low, begin), min(high, begin + chunk_rows)
            place = self._place(file, number, chunk)
            place = None if place is None else place + (start - begin) * self._row_bytes
            if waiting is not None and _follows(waiting, place, self._row_bytes):
                waiting = _Extent(waiting.start, stop, waiting.place)
                continue
            if waiting is not None:
                yield waiting
            waiting = _Extent(start, stop, place)
        if waiting is not None:
            yield waiting

    def _place(self, file: int, number: int, chunk: int) -> int | None:
        found = self._files.place(file, number, chunk)
        if found is None:
            return None
        expected = self._files.chunk_rows * self._row_bytes
        if found[1] != expected:
            what = "" if self._array.shards is None else f" for number {chunk} of its chunks"
            short = "is cut short: it " if found[1] < expected else ""
            raise ChunkDamaged(
                f"chunk {self._files.key(number)} {short}holds {found[1]} bytes{what}, expected {expected}"
            )
        if self._files.rest(file, expected):
            raise ChunkDamaged(
                f"chunk {self._files.key(number)} has bytes between or behind its chunks of {expected} bytes"
            )
        return found[0]


def _follows(extent: _Extent, place: int | None, row_bytes: int) -> bool:
    if extent.place is None or place is None:
        return extent.place is None and place is None
    return place == extent.place + (extent.stop - extent.start) * row_bytes
