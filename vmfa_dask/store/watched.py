"""A Zarr store that is watched while rows are read from it. May import: zarr."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ObjectStore, WrapperStore

from vmfa_dask.store.files import ChunkDamaged, ChunkMissing

T = TypeVar("T")

# Seconds before each new try. Object stores wait by themselves (`objects.py`).
_PAUSES = (0.1, 0.5, 2.0, 8.0)
_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


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
    store : the store
    count : where bytes are counted
    refuse_missing : whether a chunk that is not there is an error; Zarr takes it as fill values
    """

    def __init__(self, store: Store, count: BytesRead, refuse_missing: bool) -> None:
        super().__init__(store)
        self._count, self._refuse_missing = count, refuse_missing

    def _with_store(self, store: Store) -> WatchedStore:
        return WatchedStore(store, self._count, self._refuse_missing)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """As the store itself.

        Raises
        ------
        ChunkMissing
            When a chunk is not there, and that is refused.
        ChunkDamaged
            When nothing is in it.
        OSError
            Naming the key, when trying again did not help.
        """
        found = await self._tried(key, lambda: self._store.get(key, prototype, byte_range))
        self._look(key, found)
        return found

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """As the store itself; errors as `get`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def _look(self, key: str, found: Buffer | None) -> None:
        if key.rsplit("/", 1)[-1] in _METADATA:
            return
        if found is not None and len(found) == 0:  # Zarr takes an empty shard for one that holds fill values
            raise ChunkDamaged(f"chunk {key} is empty")
        if found is not None:
            self._count.add(len(found))
        elif self._refuse_missing:
            raise ChunkMissing(f"chunk {key} is not stored")

    async def _tried(self, key: str, request: Callable[[], Awaitable[T]]) -> T:
        for pause in (*(() if isinstance(self._store, ObjectStore) else _PAUSES), None):
            try:
                return await request()
            except Exception as error:
                if pause is None or isinstance(error, PermissionError):
                    raise OSError(f"chunk {key}: {type(error).__name__}: {error}") from error
                await asyncio.sleep(pause)
        raise AssertionError
