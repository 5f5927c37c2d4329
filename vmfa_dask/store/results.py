"""Results out: Zarr arrays with an entry for each row, written range by range, each chunk once.

The attributes of the output say which call it belongs to and which rows are complete, so that the same call continues
after an interruption, whatever its chunks (`store.outputs` opens it). May import: numpy, zarr.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore

Node = zarr.Array[Any] | zarr.Group

MARK = "vmfa_dask"
_SECONDS_BETWEEN_NOTES = 1.0


@dataclass(frozen=True)
class Column:
    """An array of results with an entry for each row.

    Parameters
    ----------
    shape : tuple of int
        Of the entry of a row.
    dtype : str
        Its dtype.
    dimensions : tuple of str
        Names of the axes of `shape`, for xarray.
    limit : int
        Entries are below it; 0 where they are not numbers of components.
    """

    shape: tuple[int, ...]
    dtype: str
    dimensions: tuple[str, ...] = ()
    limit: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of the entry of a row."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class ResultStore:
    """Arrays of results, and which of their rows are complete.

    Parameters
    ----------
    node : zarr.Array or zarr.Group
        The array, or the group that holds several.
    arrays : mapping of str to zarr.Array
        Arrays by the name of their column.
    call : dict
        JSON values that describe the call.
    done : list of [int, int]
        Ranges of rows that are complete, in order and apart.
    location : str, optional
        Path or URL by which other processes open the output; by default that of the folder of an open array.
    """

    def __init__(
        self,
        node: Node,
        arrays: Mapping[str, Any],
        call: dict[str, Any],
        done: list[list[int]],
        location: str | None = None,
    ) -> None:
        self.node, self.arrays, self._call, self._location = node, arrays, call, location
        self._done, self._last_note = done, time.monotonic()
        self.n_rows = int(next(iter(arrays.values())).shape[0])

    @property
    def chunk_rows(self) -> int:
        """Ranges begin at its multiples: so no chunk or shard is written twice."""
        return math.lcm(*(int((array.shards or array.chunks)[0]) for array in self.arrays.values()))

    @property
    def n_complete(self) -> int:
        """Rows that are complete."""
        return sum(stop - start for start, stop in self._done)

    @property
    def location(self) -> str | None:
        """Path or URL by which other processes open the output; None where they cannot."""
        store = self.node.store
        if self._location is not None:
            return self._location
        return os.path.join(str(store.root), self.node.path).rstrip("/") if isinstance(store, LocalStore) else None

    def whole_chunks(self, least_rows: int) -> int:
        """Round a number of rows up to whole chunks.

        Parameters
        ----------
        least_rows : int
            At least 1.

        Returns
        -------
        int
            Rows.
        """
        return -(-least_rows // self.chunk_rows) * self.chunk_rows

    def missing(self, least_rows: int) -> list[tuple[int, int]]:
        """Ranges of rows that are to be computed.

        Parameters
        ----------
        least_rows : int
            Rows of a range; rounded up to whole chunks.

        Returns
        -------
        list of (int, int)
            In order; together with the complete ranges they are all rows.
        """
        step = self.whole_chunks(least_rows)
        edges = [0, *(row for pair in self._done for row in pair), self.n_rows]
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return [(low, min(low + step, stop)) for start, stop in gaps for low in range(start, stop, step)]

    def write(self, start: int, results: Mapping[str, NDArray[Any]]) -> None:
        """Write the results of a range.

        Parameters
        ----------
        start : int
            First row.
        results : mapping of str to array
            Columns by name.

        Raises
        ------
        OSError
            When they cannot be written.
        """
        for name, array in self.arrays.items():
            values = results[name]
            array[start : start + len(values)] = values.astype(array.dtype, copy=False)

    def fill(self, least_rows: int, results_of: Callable[[int, int], Mapping[str, NDArray[Any]]]) -> Node:
        """Compute and write what is missing, range by range.

        Parameters
        ----------
        least_rows : int
            Rows of a range; rounded up to whole chunks.
        results_of : callable
            Gives the results of rows ``start:stop``, columns by name.

        Returns
        -------
        zarr.Array or zarr.Group
            The output, complete.

        Raises
        ------
        OSError
            When results cannot be written. Whatever `results_of` raises comes through; ranges before it stay complete.
        """
        try:
            for start, stop in self.missing(least_rows):
                self.write(start, results_of(start, stop))
                self.note(start, stop)
        finally:
            self.save()
        return self.node

    def note(self, start: int, stop: int) -> None:
        """Note that a range is complete; the note is stored at most once a second.

        Parameters
        ----------
        start, stop : int
            A range that `missing` has given.
        """
        merged: list[list[int]] = []
        for low, high in sorted([*self._done, [start, stop]]):
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self._done = merged
        if time.monotonic() - self._last_note >= _SECONDS_BETWEEN_NOTES:
            self.save()

    def save(self) -> None:
        """Store the notes."""
        self.node.update_attributes({MARK: {"call": self._call, "done": self._done}})
        self._last_note = time.monotonic()
