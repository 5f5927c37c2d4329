"""The store of an array, watched while Zarr reads rows from it. May import: zarr, store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import zarr
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ObjectStore, WrapperStore

from vmfa_dask.store.bounded import most_stored_bytes
from vmfa_dask.store.contents import Sizes
from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing
from vmfa_dask.store.keys import ChunkGrid
from vmfa_dask.store.shards import layout_of

T = TypeVar("T")

# Seconds before each new try. Object stores have retries of their own (`objects.py`).
_PAUSES = (0.1, 0.5, 2.0, 8.0)


@dataclass
class BytesRead:
    """A count that several threads add to.

    Parameters
    ----------
    n_bytes : int
        The count so far.
    """

    n_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, n_bytes: int) -> None:
        """Add to the count.

        Parameters
        ----------
        n_bytes : int
            Bytes that were read.
        """
        with self._lock:
            self.n_bytes += n_bytes


class WatchedStore(WrapperStore[Store]):
    """Counts the bytes read, tries failed reads again, and names chunks that are missing, damaged or unreadable.

    Parameters
    ----------
    array : zarr.Array
        The array whose chunks are read.
    count : BytesRead
        Where the bytes are counted.
    refuse_missing : bool
        Whether a chunk that is not stored is an error; Zarr takes it as fill values.
    """

    def __init__(self, array: zarr.Array[Any], count: BytesRead, refuse_missing: bool) -> None:
        super().__init__(array.store)
        self._array, self._count, self._refuse_missing = array, count, refuse_missing
        self._grid, self._layout, self._sizes = ChunkGrid(array), layout_of(array), Sizes(array)
        self._most_bytes = most_stored_bytes(array)

    def _with_store(self, store: Store) -> WatchedStore:
        return self  # Zarr wraps stores again to make them read-only, and this one is opened for reading

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Stored bytes of a key.

        Parameters
        ----------
        key : str
            Relative to the store.
        prototype : BufferPrototype
            Kind of memory that Zarr asks for.
        byte_range : ByteRequest or None
            Part of the object; None for all of it.

        Returns
        -------
        Buffer or None
            None if nothing is stored under this key, and that is not refused.

        Raises
        ------
        ChunkMissing
            If the chunk is not stored, and that is refused.
        ChunkDamaged
            If the chunk is empty, far too long or not a regular file, or the index of a shard contradicts itself.
        OSError
            Naming the chunk that still could not be read after several tries.
        """
        chunk_key = key.removeprefix(f"{self._array.path}/") if self._array.path else key
        n_bytes = self._sizes.size(chunk_key)
        if n_bytes is not None and n_bytes > self._most_bytes:
            raise ChunkDamaged(f"chunk {chunk_key} has {n_bytes} bytes, expected at most {self._most_bytes}")
        stored = await self._retried(chunk_key, lambda: self._store.get(key, prototype, byte_range))
        if stored is None:
            if self._refuse_missing:
                raise ChunkMissing(f"chunk {chunk_key} is not stored")
            return None
        if len(stored) == 0:  # Zarr takes an empty shard for one that holds fill values
            raise ChunkDamaged(f"chunk {chunk_key} is empty")
        self._count.add(len(stored))
        self._check_index(chunk_key, stored, byte_range, n_bytes)
        return stored

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Stored bytes of several keys.

        Parameters
        ----------
        prototype : BufferPrototype
            Kind of memory that Zarr asks for.
        key_ranges : iterable of (str, ByteRequest or None)
            Keys and parts, as for `get`.

        Returns
        -------
        list of Buffer or None
            In the order of the keys; errors as for `get`.
        """
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def _check_index(self, key: str, stored: Buffer, asked: ByteRequest | None, shard_bytes: int | None) -> None:
        """Check the index of a shard if that is what was read, or a part of it."""
        layout, coords = self._layout, self._grid.coords(key)
        if layout is None or coords is None:
            return
        n = layout.index_bytes
        if asked is None:
            shard_bytes = len(stored)
            offset = max(0, layout.index_offset(shard_bytes))
            raw = stored[offset : offset + n].to_bytes()
        elif asked == (RangeByteRequest(0, n) if layout.in_front else SuffixByteRequest(n)):
            raw = stored.to_bytes()
        else:
            return
        index = layout.parse(key, raw, shard_bytes)
        if self._refuse_missing:
            layout.refuse_left_out(key, index, coords)

    async def _retried(self, key: str, request: Callable[[], Awaitable[T]]) -> T:
        """The result of a request, made again after a pause if it fails."""
        for pause in (*(() if isinstance(self._store, ObjectStore) else _PAUSES), None):
            try:
                return await request()
            except MemoryError:
                raise
            except Exception as error:
                if pause is None or isinstance(error, PermissionError):
                    raise OSError(f"chunk {key}: {type(error).__name__}: {error}") from error
                await asyncio.sleep(pause)
        raise AssertionError
