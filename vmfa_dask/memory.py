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
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Vectors that straddle two cache lines cost a second load.
_CACHE_LINE_BYTES = 64
# Smaller arrays come from the allocator's own free lists.
_LARGE_BYTES = 2**20
# Buffers of one size that wait for an array: what a pass holds at once beyond that goes back to the system.
_MOST_IDLE = 2
# The last block of rows is shorter than the others.
_LARGEST_EXCESS = 2
# References to a buffer that no array uses: the list of buffers, and the loop and the call that count them.
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
        """An idle buffer that is large enough and not much larger, else a new one; too many idle ones are dropped."""
        found, idle, kept = None, dict[int, int](), list[NDArray[np.uint8]]()
        for buffer in self._buffers:
            if sys.getrefcount(buffer) <= _IDLE_REFERENCES:
                if found is None and size <= len(buffer) <= _LARGEST_EXCESS * size:
                    found = buffer
                else:
                    idle[len(buffer)] = idle.get(len(buffer), 0) + 1
                    if idle[len(buffer)] > _MOST_IDLE:
                        continue
            kept.append(buffer)
        if found is None:
            found = np.empty(size, np.uint8)
            kept.append(found)
        self._buffers = kept
        return found


def _cut(buffer: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    start = -buffer.ctypes.data % _CACHE_LINE_BYTES
    n_bytes = math.prod(shape) * dtype.itemsize
    array: NDArray[Any] = buffer[start : start + n_bytes].view(dtype).reshape(shape)
    return array
