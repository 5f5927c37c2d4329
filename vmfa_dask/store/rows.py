"""Rows in: a Zarr array as a source of row blocks. May import: tables, memory, zarr, store.

A source is opened by URL wherever it is needed; what travels between processes is the URL and the array's name.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.store.bounded import read_through
from vmfa_dask.store.completeness import check_complete
from vmfa_dask.store.conventions import check_first_dimension, refuse_packed
from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing
from vmfa_dask.store.direct import direct_reader
from vmfa_dask.store.keys import ChunkGrid
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.pipeline import is_default_pipeline
from vmfa_dask.store.units import WholeUnits
from vmfa_dask.store.watched import BytesRead, WatchedStore
from vmfa_dask.tables import Origin, check_table, row_dtype

logger = logging.getLogger("vmfa_dask")

Rows = NDArray[Any]


def _watched(array: zarr.Array[Any], count: BytesRead, refuse_missing: bool) -> zarr.Array[Any]:
    """The array as Zarr reads it, in bounds and through a watched store; other pipelines open files themselves."""
    return read_through(array, WatchedStore(array, count, refuse_missing)) if is_default_pipeline() else array


class ZarrRows:
    """Rows of a Zarr array, read in ranges, in native byte order and with half precision as float32.

    Chunk files of whole rows in a folder are read without Zarr (`store.direct`), everything else through it.

    Parameters
    ----------
    url : str
        Path or URL of the store.
    name : str or None
        Path of the array inside a group; None for the only one.
    cache_bytes : int
        Decoded rows that are kept in memory, at most; later passes do not read these ranges again.
    missing : {"refuse", "fill"}
        What happens to chunks that are not stored: an error, or rows of the array's fill value.
    origin : Origin or None
        What the rows are called in messages, if they are a copy of what the user has.

    Attributes
    ----------
    n_rows : int
        Rows of the array.
    feature_shape : tuple of int
        Shape of one row; D features in all.
    dtype : numpy.dtype
        Of the rows as `read` returns them.
    chunk_rows : int
        Rows of a stored object: of a shard if there are any, else of a chunk.
    decoded_rows : int
        Rows that are decoded together.
    label : str
        What the array is called in messages.

    Raises
    ------
    FileNotFoundError
        As `open_array`.
    ValueError
        As `open_array`, and if the array is not a table of numbers, or holds packed numbers.
    """

    def __init__(
        self,
        url: str,
        name: str | None = None,
        cache_bytes: int = 0,
        missing: str = "refuse",
        origin: Origin | None = None,
    ) -> None:
        self.url, self.name, self.cache_bytes, self.missing, self.origin = url, name, cache_bytes, missing, origin
        self._open()

    def _open(self) -> None:
        self._count = BytesRead()
        array = self._array = open_array(self.url, self.name)
        self.label = f"{self.url}/{array.path}" if array.path else self.url
        check_table(self.label, array.shape, array.dtype)
        refuse_missing = self.missing == "refuse"
        self._watched = _watched(array, self._count, refuse_missing)
        self._direct = direct_reader(array, refuse_missing)
        if not self.reads_parts:
            _check_chunk(self.label, array)
        check_first_dimension(self.label, array)
        refuse_packed(self.label, array, self.url)
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype = int(array.shape[0]), row_dtype(array.dtype)
        self.chunk_rows = int((array.shards or array.chunks)[0])
        self.decoded_rows = int(array.chunks[0])
        self._units = WholeUnits(self._from_store, self.decoded_rows, self.n_rows)
        self._has_warned = False
        self._memory = BufferPool()
        self._cache: dict[tuple[int, int], Rows] = {}
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def use_threads(self, n: int) -> None:
        """Set how many threads decode; Zarr has a pool of its own, for the rows that are left to it.

        Parameters
        ----------
        n : int
            Threads, at least 1.
        """
        if self._direct is not None:
            self._direct.threads = n

    @property
    def reads_parts(self) -> bool:
        """Whether a part of a chunk can be read without the rest of it."""
        return self._direct is not None and self._direct.reads_parts

    @property
    def bytes_read(self) -> int:
        """Stored bytes that this object has read so far: the size of chunks in the store, not in memory."""
        return self._count.n_bytes

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("url", "name", "cache_bytes", "missing", "origin")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def read(self, start: int, stop: int) -> Rows:
        """Rows of a range; safe to call from several threads.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last; not empty.

        Returns
        -------
        (stop - start, D) array of `dtype`
            In C order, read-only.

        Raises
        ------
        OSError
            Naming the array and the chunk that cannot be read or decoded.
        MemoryError
            Naming the array and the rows.
        """
        with self._lock:
            if (start, stop) in self._cache:
                return self._cache[start, stop]
        try:
            stored = (self._from_store if self.reads_parts else self._units.read)(start, stop)
            block = self._in_row_dtype(stored)
        except MemoryError as error:
            raise MemoryError(f"{self.label}: no memory for rows {start}:{stop}: {error}") from error
        except Exception as error:
            prefix = f"{self.label}: rows {start}:{stop} cannot be read: "
            raise OSError(prefix + self._what_is_damaged(start, stop, error)) from error
        block.flags.writeable = False
        with self._lock:
            if self._cached_bytes + block.nbytes <= self.cache_bytes and (start, stop) not in self._cache:
                self._cache[start, stop] = block
                self._cached_bytes += block.nbytes
        return block

    def forget_blocks(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._cache, self._cached_bytes = {}, 0

    def _empty(self, n: int, dtype: Any) -> Rows:
        return self._memory.empty((n, math.prod(self.feature_shape)), dtype)

    def _in_row_dtype(self, block: Rows) -> Rows:
        """The rows as kernels take them: the same block unless it is byte-swapped or in half precision."""
        if block.dtype == self.dtype:
            return block
        converted = self._empty(len(block), self.dtype)
        converted[...] = block
        return converted

    def _from_store(self, start: int, stop: int) -> Rows:
        """Rows in the dtype of the array: of any range if `reads_parts`, else of whole chunks."""
        if self._direct is not None:
            block = self._empty(stop - start, self._array.dtype)
            try:
                self._count.add(self._direct.read(start, stop, block))
                return block
            except (ChunkDamaged, ChunkMissing):
                raise
            except OSError as error:  # Zarr tries again, and names what it cannot read
                self._warn_once(start, stop, error)
        return np.ascontiguousarray(np.asarray(self._watched[start:stop]).reshape(stop - start, -1))

    def _warn_once(self, start: int, stop: int, error: OSError) -> None:
        """Log that rows are read in the slower way: the first time as a warning."""
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        logger.log(level, "%s: rows %d:%d are read again, by Zarr's slower way: %s", self.label, start, stop, error)

    def _what_is_damaged(self, start: int, stop: int, error: Exception) -> str:
        """The chunk of a range that cannot be read, and why; found by reading chunk after chunk."""
        if str(error).startswith("chunk "):  # its reader has named it
            return str(error)
        for first in range(start - start % self.decoded_rows, stop, self.decoded_rows):
            try:
                self._from_store(first, min(first + self.decoded_rows, self.n_rows))
            except MemoryError:
                raise
            except Exception as cause:
                key = ChunkGrid(self._array).key((first // self.chunk_rows, *(0,) * (self._array.ndim - 1)))
                text = f"{type(cause).__name__}: {cause}"
                return text if key in text else f"chunk {key}: {text}"
        return f"{type(error).__name__}: {error}"

    def check_complete(self) -> None:
        """Refuse an array some of whose chunks are not stored; where they are filled, count them in the log.

        Raises
        ------
        ValueError
            Naming the array, the first missing chunk and its rows, unless missing chunks are filled.
        """
        check_complete(self.label, self._array, self.missing == "refuse")

    def describe(self, row: int) -> str:
        """What a row is called in messages.

        Parameters
        ----------
        row : int
            Its number in the array.

        Returns
        -------
        str
            Array, row and chunk; for a copy only the row, as the user does not know the copy's chunks.
        """
        if self.origin is not None:
            return f"{self.origin.label}: row {row}"
        return f"{self.label}: row {row} (chunk {row // self.chunk_rows})"

    @property
    def remedy(self) -> str:
        """What to do about values that are not finite, as the origin says."""
        return (self.origin or Origin("")).remedy


def _check_chunk(label: str, array: zarr.Array[Any]) -> None:
    """Refuse chunks that are larger than the memory of this machine."""
    if not hasattr(os, "sysconf"):
        return
    n_bytes = math.prod(array.chunks) * array.dtype.itemsize
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if n_bytes > memory:
        raise ValueError(
            f"{label}: a chunk {array.chunks} takes {n_bytes / 2**30:.1f} GiB decoded, and this machine has "
            f"{memory / 2**30:.1f} GiB; write the data again in smaller chunks"
        )
