"""Types of arrays. May import: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def as_floats(array: Any) -> FloatArray:
    """An array of native floats of 32 or 64 bits.

    Parameters
    ----------
    array : array_like
        Numbers.

    Returns
    -------
    float32 or float64 array
        Whole numbers become float64.
    """
    found = np.asarray(array)
    native = found.dtype.newbyteorder("=")
    return found.astype(native if native in (np.float32, np.float64) else np.float64, copy=False)
