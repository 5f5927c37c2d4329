"""Row shards in: a Zarr array as a source of rows. May import: tables, memory, zarr, store.

A source is opened by URL wherever it is needed; what travels between processes is the URL and the array's name.
"""

from __future__ import annotations

import logging
import os
import threading
import zipfile
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import ZipStore

from vmfa_dask.memory import Memory
from vmfa_dask.store.completeness import missing_chunks
from vmfa_dask.store.compressed import CompressedFiles
from vmfa_dask.store.files import ChunkDamaged, ChunkMissing
from vmfa_dask.store.flat import FlatFiles
from vmfa_dask.store.forms import check_first_dimension
from vmfa_dask.store.members import chosen_member
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.packing import refuse_packed
from vmfa_dask.store.units import WholeUnits
from vmfa_dask.store.watched import BytesRead, WatchedStore
from vmfa_dask.tables import Origin, check_table, row_dtype

logger = logging.getLogger("vmfa_dask")

Rows = NDArray[Any]

_ZARRS_OWN_PIPELINE = "zarr.core.codec_pipeline.BatchedCodecPipeline"


def open_array(url: str, name: str | None = None) -> zarr.Array[Any]:
    """Open a Zarr v2 or v3 array for reading.

    Parameters
    ----------
    url : path or URL of an array, or of a group that holds it; or a zip archive of one
    name : the array's path in a group; may be left out where the group holds a single array, at any depth

    Raises
    ------
    FileNotFoundError
        When nothing is stored there. Nothing is created.
    ValueError
        When `url` is a group and `name` does not choose one of its arrays; the message lists them. When it is a file of
        another kind.
    """
    zipped = zipfile.is_zipfile(url)
    if os.path.isfile(url) and not zipped:
        raise ValueError(f"{url}: a file, and neither a zip archive of a Zarr store nor a .npy file")
    try:
        node = zarr.open(ZipStore(url, mode="r") if zipped else zarr_target(url), mode="r")
    except (FileNotFoundError, KeyError) as error:
        raise FileNotFoundError(f"{url}: no Zarr array or group is stored there") from error
    if isinstance(node, zarr.Array):
        if name is not None:
            raise ValueError(f"{url} is an array itself; array={name!r} chooses one inside a group")
        return node
    return chosen_member(url, node, name)


def _watched(array: zarr.Array[Any], count: BytesRead, refuse_missing: bool) -> zarr.Array[Any]:
    """The same array, read through a store that counts and names; codec pipelines that open files themselves do not."""
    if zarr.config.get("codec_pipeline.path") != _ZARRS_OWN_PIPELINE:
        return array
    return zarr.open_array(WatchedStore(array.store, count, refuse_missing), path=array.path, mode="r")


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
        self._array = _watched(self._plain, self._count, self.missing == "refuse")
        self._flat = FlatFiles(self._plain) if FlatFiles.are_rows(self._plain) else None
        tuned = zarr.config.get("codec_pipeline.path") == _ZARRS_OWN_PIPELINE and CompressedFiles.are_rows(self._plain)
        self._compressed = CompressedFiles(self._plain) if tuned else None
        self._memory = Memory()
        self._cache: dict[tuple[int, int], Rows] = {}
        self._cached_bytes = 0
        self._lock = threading.Lock()
        shape = self._array.shape
        self.label = f"{self.url}/{self._plain.path}" if self._plain.path else self.url
        check_table(self.label, shape, self._array.dtype)
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
        return self._memory.empty((n, int(np.prod(self.feature_shape))), dtype)

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
            except Exception as error:  # Zarr tries again, fills what is missing, and names what it cannot read
                logger.debug("%s: rows %d:%d are left to Zarr: %s", self.label, start, stop, error)
        return np.ascontiguousarray(np.asarray(self._array[start:stop]).reshape(stop - start, -1))

    def _what_is_damaged(self, start: int, stop: int, error: Exception) -> str:
        """The chunk of a range that cannot be read, and why; found by reading one after the other."""
        if str(error).startswith("chunk "):  # whoever read it has named it
            return str(error)
        size = self._array.chunks[0]
        for first in range(start - start % size, stop, size):
            try:
                self._decoded(first, min(first + size, self.n_rows))
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
        places = missing_chunks(self._plain)
        if not places:
            return
        start = places[0][0] * self.chunk_rows
        rows = f"rows {start}:{min(start + self.chunk_rows, self.n_rows)}"
        found = (
            f"{self.label}: {len(places)} chunks are not stored, the first one is {places[0]} ({rows}); "
            f"Zarr reads them as {self._array.fill_value!r}"
        )
        if self.missing == "refuse":
            raise ValueError(
                f"{found}. Restore them, or pass missing_chunks='fill' if the writer left out chunks of that value"
            )
        logger.warning("%s", found)

    def describe(self, row: int) -> str:
        """Array, chunk and row, for messages; of a copy the row alone, as nobody knows its chunks."""
        if self.origin is not None:
            return f"{self.origin.label}: row {row}"
        return f"{self.label}: row {row} (chunk {row // self.chunk_rows})"

    @property
    def remedy(self) -> str:
        """As the origin says."""
        return (self.origin or Origin("")).remedy
