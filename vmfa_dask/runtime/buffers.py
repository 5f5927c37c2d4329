"""A pool of memory for large arrays. May import: numpy.

A pass makes arrays as large as the model several times over (sums, the next parameters, their packed form), and each
block of rows some as large as itself. Fresh pages for the former took a tenth of a pass (CIFAR-10, C = 800, H = 5),
most of it where two threads touch them first at once; for the latter, a fifth of the time of the cores where rows
stream from disk.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Vectors that straddle two cache lines cost a second load.
_CACHE_LINE_BYTES = 64
# Smaller arrays come from the allocator's own free lists.
_LARGE_BYTES = 2**20
# Buffers of about one size that wait for an array: what a pass holds at once beyond that goes back to the system.
_MOST_IDLE = 2
# The last block of rows may be a bit shorter. (With more, arrays take the memory of larger ones, which take new pages.)
_LARGEST_EXCESS = 1.25
# Room for an array that is a bit larger in each pass, as float64 parameters of ill-conditioned components are. Pages
# that nothing touches cost no memory, while fresh ones for all of it took as long as filling them five times.
_ROOM_TO_GROW = 1.125


class _Loan:
    """A buffer on loan: arrays over it, and their views, keep this object alive; its end gives the buffer back.

    NumPy takes such an object as the base of an array (`__array_interface__`) and never looks past it, so the life of
    the object is that of the last array, view or memoryview, by the rules of the language alone.

    Parameters
    ----------
    buffer : what is lent
    home : where it goes when nobody has it any more
    """

    def __init__(self, buffer: NDArray[np.uint8], home: deque[NDArray[np.uint8]]) -> None:
        self._buffer, self._home = buffer, home
        self.__array_interface__ = buffer.__array_interface__

    def __del__(self) -> None:
        # No lock: the end of an array can come at any moment, in a thread that holds the lock of the pool, too.
        self._home.append(self._buffer)


class BufferPool:
    """Lends unwritten arrays and reuses their memory; safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: list[NDArray[np.uint8]] = []
        self._returned: deque[NDArray[np.uint8]] = deque()
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An unwritten array that starts at a cache line.

        Parameters
        ----------
        shape : tuple of int
            Its shape.
        dtype : dtype
            Its dtype.

        Returns
        -------
        array
            Its memory returns to the pool when the array and all views of it are gone.
        """
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        if n_bytes < _LARGE_BYTES:
            return _cut(np.empty(n_bytes + _CACHE_LINE_BYTES, np.uint8), shape, kind)
        with self._lock:
            buffer = self._buffer(n_bytes + _CACHE_LINE_BYTES)
        return _cut(np.asarray(_Loan(buffer, self._returned)), shape, kind)

    def clear(self) -> None:
        """Give memory that waits for an array back to the system."""
        with self._lock:
            self._idle.clear()
            self._returned.clear()

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        """The smallest idle buffer that is large enough, where it is hardly larger, else a new one.

        Of the other idle ones, too many of about one size are dropped.
        """
        while self._returned:
            self._idle.append(self._returned.popleft())
        fitting = (b for b, buffer in enumerate(self._idle) if size <= len(buffer) <= _LARGEST_EXCESS * size)
        chosen = min(fitting, key=lambda b: len(self._idle[b]), default=None)
        found = None if chosen is None else self._idle.pop(chosen)
        kept, n_idle = [], Counter[int]()
        for buffer in self._idle:
            # Of about one size: candidates of row blocks, say, are as many as the rows happen to have.
            about = int(math.log(len(buffer), _LARGEST_EXCESS))
            n_idle[about] += 1
            if n_idle[about] <= _MOST_IDLE:
                kept.append(buffer)
        self._idle = kept
        return np.empty(int(_ROOM_TO_GROW * size), np.uint8) if found is None else found


def _cut(buffer: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    start = -buffer.ctypes.data % _CACHE_LINE_BYTES
    n_bytes = math.prod(shape) * dtype.itemsize
    array: NDArray[Any] = buffer[start : start + n_bytes].view(dtype).reshape(shape)
    return array
