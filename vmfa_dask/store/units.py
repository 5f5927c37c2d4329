"""Ranges of rows cut out of units that can only be made as a whole: decoded chunks, computed chunks of Dask.

May import: numpy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]


class WholeUnits:
    """Makes each unit once for ranges that follow one another: the last unit that was cut is kept for the next range.

    Parameters
    ----------
    make : callable of (start, stop) -> (stop - start, D) array
        Makes rows ``start:stop``, which begin and end at the edge of a unit or at the last row.
    unit_rows : int
        Rows of a unit; the last one may have fewer.
    n_rows : int
        Rows of all units.
    """

    def __init__(self, make: Callable[[int, int], Rows], unit_rows: int, n_rows: int) -> None:
        self._make, self._unit_rows, self._n_rows = make, unit_rows, n_rows
        self._last_cut: tuple[int, Rows] | None = None
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> Rows:
        """Rows of any range; safe to call from several threads.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last; not empty.

        Returns
        -------
        (stop - start, D) array
            In memory that no other range shares.
        """
        size = self._unit_rows
        first_edge, last_edge = -(-start // size) * size, stop - stop % size
        if stop == self._n_rows:
            last_edge = stop
        if first_edge > last_edge:  # inside one unit
            return self._cut(start, stop).copy()
        parts = [self._cut(start, first_edge)] if start < first_edge else []
        if first_edge < last_edge:
            parts.append(self._make(first_edge, last_edge))
        if last_edge < stop:
            parts.append(self._cut(last_edge, stop))
        if len(parts) > 1:
            return np.concatenate(parts)
        return parts[0] if start == first_edge and last_edge == stop else parts[0].copy()

    def _cut(self, start: int, stop: int) -> Rows:
        """A view of rows that lie inside one unit."""
        first = start - start % self._unit_rows
        with self._lock:
            if self._last_cut is None or self._last_cut[0] != first:
                self._last_cut = None  # free its memory before the next unit is made
                self._last_cut = first, self._make(first, min(first + self._unit_rows, self._n_rows))
            return self._last_cut[1][start - first : stop - first]
