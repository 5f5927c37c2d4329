"""Row shards in: a Zarr array as a source of rows. May import: tables, memory, zarr, store.

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
from vmfa_dask.store.completeness import Completeness, completeness_of
from vmfa_dask.store.compressed import CompressedFiles
from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing
from vmfa_dask.store.flat import FlatFiles
from vmfa_dask.store.forms import check_first_dimension
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.packing import refuse_packed
from vmfa_dask.store.units import WholeUnits
from vmfa_dask.store.watched import BytesRead, WatchedStore
from vmfa_dask.tables import Origin, check_table, row_dtype

logger = logging.getLogger("vmfa_dask")

Rows = NDArray[Any]

_ZARRS_OWN_PIPELINE = "zarr.core.codec_pipeline.BatchedCodecPipeline"


def _watched(array: zarr.Array[Any], count: BytesRead, refuse_missing: bool) -> zarr.Array[Any]:
    """The same array, read through a store that counts and names; codec pipelines that open files themselves do not."""
    if zarr.config.get("codec_pipeline.path") != _ZARRS_OWN_PIPELINE:
        return array
    return read_through(array, WatchedStore(array, count, refuse_missing))


class ZarrRows:
    """Rows of a Zarr array, read in whole ranges, and given in native byte order, half precision as float32.

    Parameters
    ----------
    url : path or URL of the store
    name : name of the array inside a group
    cache_bytes : decoded rows kept in memory, at most; passes over the data read these ranges once
    missing : "refuse" a chunk that is not stored, or "fill" its rows with the array's fill value
    origin : what the rows are called in messages, where they are a copy of what the user has

    Raises
    ------
    FileNotFoundError, ValueError
        As `open_array`, and when the array is no table of numbers, or one of packed numbers.
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
        self._plain = open_array(self.url, self.name)
        self.label = f"{self.url}/{self._plain.path}" if self._plain.path else self.url
        check_table(self.label, self._plain.shape, self._plain.dtype)
        refuse = self.missing == "refuse"
        self._array = _watched(self._plain, self._count, refuse)
        self._flat = FlatFiles(self._plain, refuse) if FlatFiles.are_rows(self._plain) else None
        tuned = zarr.config.get("codec_pipeline.path") == _ZARRS_OWN_PIPELINE and CompressedFiles.are_rows(self._plain)
        self._compressed = CompressedFiles(self._plain, refuse) if tuned else None
        if self._flat is None:
            _check_chunk(self.label, self._plain)
        self._told = False
        self._memory = BufferPool()
        self._cache: dict[tuple[int, int], Rows] = {}
        self._cached_bytes = 0
        self._lock = threading.Lock()
        shape = self._array.shape
        check_first_dimension(self.label, self._plain)
        refuse_packed(self.label, self._plain, self.url)
        self.feature_shape = tuple(int(n) for n in shape[1:])
        self.n_rows, self.dtype = int(shape[0]), row_dtype(self._array.dtype)
        stored = self._array.shards or self._array.chunks
        self.chunk_rows = int(stored[0])
        self.decoded_rows = int(self._array.chunks[0])
        self._units = WholeUnits(self._decoded, self.decoded_rows, self.n_rows)

    def use_threads(self, n: int) -> None:
        """Decode on `n` threads, where rows are not left to Zarr, which has its own."""
        if self._compressed is not None:
            self._compressed.threads = n

    @property
    def reads_parts(self) -> bool:
        """Whether a part of a chunk can be read without the rest of it."""
        return self._flat is not None

    @property
    def bytes_read(self) -> int:
        """Stored bytes that were read so far by this object: what its chunks take in the store, not in memory."""
        return self._count.n_bytes

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("url", "name", "cache_bytes", "missing", "origin")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop`` as (n, D); safe to call from several threads.

        Raises
        ------
        OSError
            Naming the array and the chunk that cannot be read or decoded.
        """
        with self._lock:
            if (start, stop) in self._cache:
                return self._cache[start, stop]
        try:
            block = self._in_row_dtype(self._stored(start, stop))
        except MemoryError as error:
            raise MemoryError(f"{self.label}: no memory for rows {start}:{stop}: {error}") from error
        except Exception as error:
            where = f"{self.label}: rows {start}:{stop} cannot be read: "
            raise OSError(where + self._what_is_damaged(start, stop, error)) from error
        block.flags.writeable = False
        with self._lock:
            if self._cached_bytes + block.nbytes <= self.cache_bytes and (start, stop) not in self._cache:
                self._cache[start, stop] = block
                self._cached_bytes += block.nbytes
        return block

    def _empty(self, n: int, dtype: Any) -> Rows:
        return self._memory.empty((n, math.prod(self.feature_shape)), dtype)

    def _in_row_dtype(self, block: Rows) -> Rows:
        """The rows as kernels take them: the same block unless it is swapped or in half precision."""
        if block.dtype == self.dtype:
            return block
        converted = self._empty(len(block), self.dtype)
        converted[...] = block
        return converted

    def _stored(self, start: int, stop: int) -> Rows:
        if self._flat is not None:
            block = self._empty(stop - start, self._plain.dtype)
            try:
                self._count.add(self._flat.read(start, stop, block))
                return block
            except ChunkMissing:
                if self.missing == "refuse":
                    raise
        return self._units.read(start, stop)

    def _decoded(self, start: int, stop: int) -> Rows:
        if self._compressed is not None:
            block = self._empty(stop - start, self._plain.dtype)
            try:
                self._count.add(self._compressed.read(start, stop, block))
                return block
            except ChunkDamaged:
                raise
            except ChunkMissing:  # Zarr fills it
                if self.missing == "refuse":
                    raise
            except OSError as error:  # Zarr tries again, and names what it cannot read
                self._tell(start, stop, error)
        return np.ascontiguousarray(np.asarray(self._array[start:stop]).reshape(stop - start, -1))

    def _tell(self, start: int, stop: int, error: OSError) -> None:
        """Say once that rows are read in the slower way."""
        level = logging.DEBUG if self._told else logging.WARNING
        self._told = True
        logger.log(level, "%s: rows %d:%d are read again, by Zarr's slower way: %s", self.label, start, stop, error)

    def _what_is_damaged(self, start: int, stop: int, error: Exception) -> str:
        """The chunk of a range that cannot be read, and why; found by reading one after the other."""
        if str(error).startswith("chunk "):  # whoever read it has named it
            return str(error)
        size = self._array.chunks[0]
        for first in range(start - start % size, stop, size):
            try:
                self._decoded(first, min(first + size, self.n_rows))
            except MemoryError:
                raise
            except Exception as found:
                number = (first // self.chunk_rows, *(0,) * (self._array.ndim - 1))
                key = self._array.metadata.encode_chunk_key(number)
                text = f"{type(found).__name__}: {found}"
                return text if key in text else f"chunk {key}: {text}"
        return f"{type(error).__name__}: {error}"

    def check_complete(self) -> None:
        """Refuse an array some of whose chunks are not stored, or count them in the log.

        Raises
        ------
        ValueError
            Naming the array, the first missing chunk and its rows, unless missing chunks are filled.
        """
        found = completeness_of(self._plain)
        problems = [problem for problem in (self._missing(found), self._beyond(found)) if problem is not None]
        if problems and self.missing == "refuse":
            raise ValueError(". ".join(problems[0]))
        for what, _ in problems:
            logger.warning("%s", what)

    def _missing(self, found: Completeness) -> tuple[str, str] | None:
        """What is not stored, and the way out."""
        way = "Restore them, or pass missing_chunks='fill' if the writer left out chunks of that value"
        if found.first_missing is not None:
            start = found.first_missing[0] * self.chunk_rows
            rows = f"rows {start}:{min(start + self.chunk_rows, self.n_rows)}"
            return (
                f"{self.label}: {found.n_missing} chunks are not stored, the first one is {found.first_missing} "
                f"({rows}); Zarr reads them as {self._array.fill_value!r}",
                way,
            )
        if found.left_out:
            key, n = found.left_out[0]
            return (
                f"{self.label}: {sum(n for _, n in found.left_out)} chunks inside of shards are not stored, the first "
                f"{n} in chunk {key}; Zarr reads them as {self._array.fill_value!r}",
                way,
            )
        return None

    def _beyond(self, found: Completeness) -> tuple[str, str] | None:
        """What is stored and would never be read, and the way out."""
        if not found.beyond:
            return None
        return (
            f"{self.label}: the store holds {len(found.beyond)} chunks beyond its shape {self._plain.shape}, the first "
            f"one is {found.beyond[0]}: rows may be missing from its metadata",
            "Restore the metadata, or remove these chunks; missing_chunks='fill' passes over them",
        )

    def describe(self, row: int) -> str:
        """Array, chunk and row, for messages; of a copy the row alone, as nobody knows its chunks."""
        if self.origin is not None:
            return f"{self.origin.label}: row {row}"
        return f"{self.label}: row {row} (chunk {row // self.chunk_rows})"

    @property
    def remedy(self) -> str:
        """As the origin says."""
        return (self.origin or Origin("")).remedy


def _check_chunk(label: str, array: zarr.Array[Any]) -> None:
    """Refuse chunks that are larger than the memory of this machine.

    Raises
    ------
    ValueError
        With both sizes.
    """
    if not hasattr(os, "sysconf"):
        return
    n_bytes = math.prod(array.chunks) * array.dtype.itemsize
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if n_bytes > memory:
        raise ValueError(
            f"{label}: a chunk {array.chunks} takes {n_bytes / 2**30:.1f} GiB decoded, and this machine has "
            f"{memory / 2**30:.1f} GiB; write the data again in smaller chunks"
        )
