"""Sizes of values in memory, with the arrays that they hold. May import: numpy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def size_of(value: Any) -> int:
    """Size of a value in memory with all arrays that it holds.

    Parameters
    ----------
    value : object
        Anything; views count as the array that they show.

    Returns
    -------
    int
        Bytes.
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 100
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(size_of(item) for pair in value.items() for item in pair)
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(size_of(item) for item in value)
    return sys.getsizeof(value)


class Sized:
    """A dataclass that tells its size with all that it holds: Dask decides by it what to send, and what to spill."""

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(size_of(held) for held in vars(self).values())
