"""What a table of rows is, whoever holds it: its shape, its dtype, what it is called in messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

# More than any store holds, and no sum of sizes overflows.
_MOST_BYTES = 2**60

class NoFeatures(ValueError):
    """An array without an axis of features; `found` says what it is."""

    def __init__(self, label: str, shape: tuple[int, ...]) -> None:
        self.found = f"{label}: shape {shape} has no features"
        advice = "use reshape(-1, 1) for one feature or reshape(1, -1) for one row"
        super().__init__(f"{self.found}; expected (rows, features...): {advice}")


def check_table(label: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse arrays that are no table of numbers.

    Parameters
    ----------
    label : str
        What the array is called.
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.

    Raises
    ------
    NoFeatures, ValueError
        Naming the array, what was found and what is expected.
    """
    if len(shape) < 2:
        raise NoFeatures(label, shape)
    if min(shape) == 0:
        raise ValueError(f"{label}: shape {shape} holds no values")
    dtype = np.dtype(dtype)
    if math.prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise ValueError(
            f"{label}: shape {shape} of {dtype} takes {math.prod(shape) * dtype.itemsize:.3g} bytes, expected less "
            "than 2**60: its shape or its metadata are damaged"
        )
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        hint = "; for truth values use astype('uint8')" if dtype.kind == "b" else ""
        raise ValueError(
            f"{label}: dtype {dtype} is not supported; expected an integer or a float of at most 64 bits{hint}"
        )


def row_dtype(stored: Any) -> np.dtype[Any]:
    """Dtype in which kernels see stored rows.

    Parameters
    ----------
    stored : dtype
        Their dtype in the store.

    Returns
    -------
    dtype
        In native byte order, half precision as float32.
    """
    stored = np.dtype(stored)
    return np.dtype("f4" if stored.kind == "f" and stored.itemsize == 2 else f"{stored.kind}{stored.itemsize}")


@dataclass(frozen=True)
class Origin:
    """What rows are called in messages.

    Parameters
    ----------
    label : str
        The argument, the variable or the file.
    remedy : str
        What to do where a row holds NaN or infinity.
    """

    label: str
    remedy: str = "clean the data or leave the row out"
