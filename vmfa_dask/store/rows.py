"""Row shards in: a Zarr array as a source of rows, in their stored dtype. May import: values, zarr, store.

A source is opened by URL wherever it is needed; what travels between processes is the URL and the array's name.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.store.completeness import missing_chunks
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.values import check_table

logger = logging.getLogger("vmfa_dask")

Rows = NDArray[Any]


def open_array(url: str, name: str | None = None) -> zarr.Array[Any]:
    """Open a Zarr v2 or v3 array for reading.

    Parameters
    ----------
    url : path or URL of an array, or of a group that holds it
    name : the array's name in a group; may be left out where the group holds a single array

    Raises
    ------
    FileNotFoundError
        When nothing is stored there. Nothing is created.
    ValueError
        When `url` is a group and `name` does not choose one of its arrays; the message lists them.
    """
    try:
        node = zarr.open(zarr_target(url), mode="r")
    except (FileNotFoundError, KeyError) as error:
        raise FileNotFoundError(f"{url}: no Zarr array or group is stored there") from error
    if isinstance(node, zarr.Array):
        if name is not None:
            raise ValueError(f"{url} is an array itself; array={name!r} chooses one inside a group")
        return node
    arrays = sorted(key for key, _ in node.arrays())
    if name is None and len(arrays) == 1:
        name = arrays[0]
    if name not in arrays:
        found = ", ".join(repr(key) for key in arrays) or "none"
        raise ValueError(
            f"{url} is a group with the arrays {found}; choose one by the argument array=..., found array={name!r}"
        )
    member = node[name]
    assert isinstance(member, zarr.Array)
    return member


class ZarrRows:
    """Rows of a Zarr array, read in whole ranges.

    Parameters
    ----------
    url : path or URL of the store
    name : name of the array inside a group
    cache_bytes : decoded rows kept in memory, at most; passes over the data read these ranges once

    Raises
    ------
    FileNotFoundError, ValueError
        As `open_array`, and when the array is no table of numbers.
    """

    def __init__(self, url: str, name: str | None = None, cache_bytes: int = 0) -> None:
        self.url, self.name, self.cache_bytes = url, name, cache_bytes
        self._open()

    def _open(self) -> None:
        self._array = open_array(self.url, self.name)
        self._cache: dict[tuple[int, int], Rows] = {}
        self._cached_bytes = 0
        self._lock = threading.Lock()
        shape = self._array.shape
        self.label = f"{self.url}/{self.name}" if self.name else self.url
        check_table(self.label, shape, self._array.dtype)
        self.feature_shape = tuple(int(n) for n in shape[1:])
        self.n_rows, self.dtype = int(shape[0]), np.dtype(self._array.dtype)
        stored = self._array.shards or self._array.chunks
        self.chunk_rows = int(stored[0])

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "name": self.name, "cache_bytes": self.cache_bytes}

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
            block = np.asarray(self._array[start:stop]).reshape(stop - start, -1)
        except Exception as error:
            first, last = start // self.chunk_rows, (stop - 1) // self.chunk_rows
            raise OSError(
                f"{self.label}: rows {start}:{stop} (chunks {first} to {last} along the first axis) cannot be "
                f"read: {type(error).__name__}: {error}"
            ) from error
        block = np.ascontiguousarray(block)
        block.flags.writeable = False
        with self._lock:
            if self._cached_bytes + block.nbytes <= self.cache_bytes and (start, stop) not in self._cache:
                self._cache[start, stop] = block
                self._cached_bytes += block.nbytes
        return block

    def check_complete(self, missing: str) -> None:
        """Refuse an array some of whose chunks are not stored, or count them in the log.

        Parameters
        ----------
        missing : "refuse", or "fill" to take their rows as the array's fill value

        Raises
        ------
        ValueError
            Naming the array, the first missing chunk and its rows, with "refuse".
        """
        places = missing_chunks(self._array)
        if not places:
            return
        start = places[0][0] * self.chunk_rows
        rows = f"rows {start}:{min(start + self.chunk_rows, self.n_rows)}"
        found = (
            f"{self.label}: {len(places)} chunks are not stored, the first one is {places[0]} ({rows}); "
            f"Zarr reads them as {self._array.fill_value!r}"
        )
        if missing == "refuse":
            raise ValueError(
                f"{found}. Restore them, or pass missing_chunks='fill' if the writer left out chunks of that value"
            )
        logger.warning("%s", found)

    def describe(self, row: int) -> str:
        """Array, chunk and row, for messages."""
        return f"{self.label}: row {row} (chunk {row // self.chunk_rows})"
