"""Chunks that belong to a Zarr array and are not in its store. May import: zarr."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import zarr
from zarr.storage import LocalStore, ObjectStore, ZipStore


def missing_chunks(array: zarr.Array[Any]) -> list[tuple[int, ...]]:
    """Places in the grid of the stored objects (shards where the array has them) that are not there, in order.

    Zarr reads them as the fill value without a word: a writer may have left out chunks that hold nothing else, but a
    copy that was cut short or a file that was deleted looks the same. Other stores than folders, archives and object
    stores give none: a web server lists what it likes, if anything.
    """
    if not isinstance(array.store, LocalStore | ZipStore | ObjectStore):
        return []
    prefix = f"{array.path}/" if array.path else ""
    sizes = array.shards or array.chunks
    grid = [range(-(-length // size)) for length, size in zip(array.shape, sizes, strict=True)]

    async def keys() -> set[str]:
        return {key async for key in array.store.list_prefix(prefix)}

    # In a thread of its own: this one may run an event loop already, as notebooks do.
    with ThreadPoolExecutor(1, thread_name_prefix="vmfa-list") as lister:
        stored = lister.submit(asyncio.run, keys()).result()
    return [
        place for place in itertools.product(*grid) if prefix + array.metadata.encode_chunk_key(place) not in stored
    ]
