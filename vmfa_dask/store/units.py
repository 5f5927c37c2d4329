"""Ranges of rows out of units that are made as a whole: chunks that are decoded, parts that Dask computes.

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
    """Makes each unit once for ranges that follow one another; the last one that was cut is kept for the next range.

    Parameters
    ----------
    make : rows ``start:stop`` (n, D), which begin and end with units or with the last row
    unit_rows, n_rows : rows of a unit, and of all
    """

    def __init__(self, make: Callable[[int, int], Rows], unit_rows: int, n_rows: int) -> None:
        self._make, self._size, self._n_rows = make, unit_rows, n_rows
        self._last: tuple[int, Rows] | None = None
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop`` in memory of their own; safe to call from several threads."""
        low, high = -(-start // self._size) * self._size, stop - stop % self._size
        if stop == self._n_rows:
            high = stop
        if low > high:  # inside one unit
            return self._of_unit(start, stop).copy()
        parts = [self._of_unit(start, low)] if start < low else []
        if low < high:
            parts.append(self._make(low, high))
        if high < stop:
            parts.append(self._of_unit(high, stop))
        if len(parts) > 1:
            return np.concatenate(parts)
        return parts[0] if start == low and high == stop else parts[0].copy()

    def _of_unit(self, start: int, stop: int) -> Rows:
        """A view of rows that lie in one unit."""
        first = start - start % self._size
        with self._lock:
            if self._last is None or self._last[0] != first:
                self._last = None  # its memory goes before the next one comes
                self._last = first, self._make(first, min(first + self._size, self._n_rows))
            return self._last[1][start - first : stop - first]
