"""Keys of the chunks of an array, and what they say. May import: zarr."""

from __future__ import annotations

import math
import re
from typing import Any

import zarr


class ChunkGrid:
    """The grid of the stored objects of an array: shards where it has them, else chunks.

    Parameters
    ----------
    array : the array
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        sizes = array.shards or array.chunks
        self.lengths = tuple(-(-length // size) for length, size in zip(array.shape, sizes, strict=True))
        self._metadata = array.metadata
        of_first = re.escape(self.key((0,) * array.ndim))
        self._pattern = re.compile(of_first.replace("0", r"(\d{1,19})"))

    @property
    def n_objects(self) -> int:
        """Stored objects of a complete array."""
        return math.prod(self.lengths)

    def key(self, place: tuple[int, ...]) -> str:
        """Key of an object inside its array."""
        return self._metadata.encode_chunk_key(place)

    def place(self, key: str) -> tuple[int, ...] | None:
        """Place in the grid that a key has, inside the array or beyond; None for the key of something else."""
        found = self._pattern.fullmatch(key)
        place = tuple(map(int, found.groups())) if found else ()
        return place if len(place) == len(self.lengths) and self.key(place) == key else None

    def holds(self, place: tuple[int, ...]) -> bool:
        """Whether a place lies inside the array."""
        return all(at < length for at, length in zip(place, self.lengths, strict=True))
