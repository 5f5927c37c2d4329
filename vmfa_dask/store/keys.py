"""Keys of the chunks of an array, and the coordinates that they stand for. May import: zarr."""

from __future__ import annotations

import math
import re
from typing import Any

import zarr


class ChunkGrid:
    """The grid of the stored objects of an array: of its shards if it has any, else of its chunks.

    Parameters
    ----------
    array : zarr.Array
        The array; only its metadata are used.
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        sizes = array.shards or array.chunks
        self.lengths = tuple(-(-length // size) for length, size in zip(array.shape, sizes, strict=True))
        self._metadata = array.metadata
        first_key = re.escape(self.key((0,) * array.ndim))
        self._pattern = re.compile(first_key.replace("0", r"(\d{1,19})"))

    @property
    def n_objects(self) -> int:
        """Stored objects of a complete array."""
        return math.prod(self.lengths)

    def key(self, coords: tuple[int, ...]) -> str:
        """Key of an object, relative to its array.

        Parameters
        ----------
        coords : tuple of int
            Its coordinates in the grid, one per axis.

        Returns
        -------
        str
            For example "c/1/0" in format 3, "1.0" in format 2.
        """
        return self._metadata.encode_chunk_key(coords)

    def coords(self, key: str) -> tuple[int, ...] | None:
        """Coordinates that a key stands for, inside the array or beyond its shape.

        Parameters
        ----------
        key : str
            Relative to the array.

        Returns
        -------
        tuple of int or None
            One per axis; None if this is not the key of a chunk.
        """
        match = self._pattern.fullmatch(key)
        coords = tuple(map(int, match.groups())) if match else ()
        return coords if len(coords) == len(self.lengths) and self.key(coords) == key else None

    def contains(self, coords: tuple[int, ...]) -> bool:
        """Whether coordinates lie inside the array.

        Parameters
        ----------
        coords : tuple of int
            One per axis.

        Returns
        -------
        bool
        """
        return all(at < length for at, length in zip(coords, self.lengths, strict=True))
