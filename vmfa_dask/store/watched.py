"""A Zarr store that is watched while rows are read from it. May import: zarr, store."""

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

# Seconds before each new try. Object stores wait by themselves (`objects.py`).
_PAUSES = (0.1, 0.5, 2.0, 8.0)


@dataclass
class BytesRead:
    """A count that threads share."""

    n_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, n_bytes: int) -> None:
        """Count bytes in."""
        with self._lock:
            self.n_bytes += n_bytes


class WatchedStore(WrapperStore[Store]):
    """Counts what is read, tries again what failed, and names the chunk that cannot be read or is not there.

    Parameters
    ----------
    array : the array whose chunks are read
    count : where bytes are counted
    refuse_missing : whether a chunk that is not there is an error; Zarr takes it as fill values
    """

    def __init__(self, array: zarr.Array[Any], count: BytesRead, refuse_missing: bool) -> None:
        super().__init__(array.store)
        self._array, self._count, self._refuse_missing = array, count, refuse_missing
        self._grid, self._layout, self._sizes = ChunkGrid(array), layout_of(array), Sizes(array)
        self._most_bytes = most_stored_bytes(array)

    def _with_store(self, store: Store) -> WatchedStore:
        return self  # it is for reading already

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """As the store itself.

        Raises
        ------
        ChunkMissing
            When a chunk is not there, and that is refused.
        ChunkDamaged
            When nothing is in it, it is far too long or no regular file, or the index of a shard contradicts itself.
        OSError
            Naming the key, when trying again did not help.
        """
        chunk = key.removeprefix(f"{self._array.path}/") if self._array.path else key
        size = self._sizes.size(chunk)
        if size is not None and size > self._most_bytes:
            raise ChunkDamaged(f"chunk {chunk} has {size} bytes, expected at most {self._most_bytes}")
        found = await self._tried(chunk, lambda: self._store.get(key, prototype, byte_range))
        self._look(chunk, found)
        self._look_at_index(chunk, found, byte_range, size)
        return found

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """As the store itself; errors as `get`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def _look(self, key: str, found: Buffer | None) -> None:
        if found is not None and len(found) == 0:  # Zarr takes an empty shard for one that holds fill values
            raise ChunkDamaged(f"chunk {key} is empty")
        if found is not None:
            self._count.add(len(found))
        elif self._refuse_missing:
            raise ChunkMissing(f"chunk {key} is not stored")

    def _look_at_index(self, key: str, found: Buffer | None, asked: ByteRequest | None, size: int | None) -> None:
        """Check the index of a shard where that is what was read, or a part of it."""
        layout, place = self._layout, self._grid.place(key)
        if layout is None or place is None or found is None:
            return
        if asked is None:
            size = len(found)
            begin = max(0, layout.begin(size))
            raw = found[begin : begin + layout.n_bytes].to_bytes()
        elif asked == (RangeByteRequest(0, layout.n_bytes) if layout.in_front else SuffixByteRequest(layout.n_bytes)):
            raw = found.to_bytes()
        else:
            return
        index = layout.read(key, raw, size)
        if self._refuse_missing:
            layout.refuse_absent(key, index, place)

    async def _tried(self, key: str, request: Callable[[], Awaitable[T]]) -> T:
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
