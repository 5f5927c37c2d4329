"""Memory of large arrays, used again once nobody holds them. May import: numpy.

A pass makes arrays as large as the model several times over (sums, the next parameters, their packed form), and each
block of rows some as large as itself. Fresh pages for the former took a tenth of a pass (CIFAR-10, C = 800, H = 5),
most of it where two threads touch them first at once; for the latter, a fifth of the time of the cores where rows
stream from disk.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Vectors that straddle two cache lines cost a second load.
_CACHE_LINE_BYTES = 64
# Smaller arrays come from the allocator's own free lists.
_LARGE_BYTES = 2**20
# Buffers of one size that wait for an array: what a pass holds at once beyond that goes back to the system.
_MOST_IDLE = 2
# The last block of rows may be a bit shorter. (With more, arrays take the memory of larger ones, which take new pages.)
_LARGEST_EXCESS = 1.25
# Room for an array that is a bit larger in each pass, as float64 parameters of ill-conditioned components are. Pages
# that nothing touches cost no memory, while fresh ones for all of it took as long as filling them five times.
_ROOM_TO_GROW = 1.125
# References to a buffer that no array uses: the list of buffers, and the comprehension and the call that count them.
_IDLE_REFERENCES = 3


class Memory:
    """Gives out unwritten arrays; safe to use from several threads."""

    def __init__(self) -> None:
        self._buffers: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An unwritten array that starts at a cache line.

        Its memory serves another array once this one and all views of it are gone.
        """
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        if n_bytes < _LARGE_BYTES:
            return _cut(np.empty(n_bytes + _CACHE_LINE_BYTES, np.uint8), shape, kind)
        with self._lock:
            return _cut(self._buffer(n_bytes + _CACHE_LINE_BYTES), shape, kind)

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        """The smallest idle buffer that is large enough, where it is hardly larger, else a new one.

        Of the other idle ones, too many of one size are dropped.
        """
        idle = [sys.getrefcount(buffer) <= _IDLE_REFERENCES for buffer in self._buffers]
        largest = _LARGEST_EXCESS * size
        fitting = (b for b, free in zip(self._buffers, idle, strict=True) if free and size <= len(b) <= largest)
        found = min(fitting, key=len, default=None)
        kept, n_idle = [], Counter[int]()
        for buffer, free in zip(self._buffers, idle, strict=True):
            n_idle[len(buffer)] += free and buffer is not found
            if not free or buffer is found or n_idle[len(buffer)] <= _MOST_IDLE:
                kept.append(buffer)
        if found is None:
            found = np.empty(int(_ROOM_TO_GROW * size), np.uint8)
            kept.append(found)
        self._buffers = kept
        return found


def _cut(buffer: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    start = -buffer.ctypes.data % _CACHE_LINE_BYTES
    n_bytes = math.prod(shape) * dtype.itemsize
    array: NDArray[Any] = buffer[start : start + n_bytes].view(dtype).reshape(shape)
    return array
