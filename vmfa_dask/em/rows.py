"""Rows in the form that kernels take. May import: numpy, values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.values import Float64

Rows = NDArray[Any]
# Stored dtypes that kernels convert in registers without loss.
_EXACT_IN_FLOAT32 = ("uint8", "int8", "uint16", "int16", "float32")
_EXACT_IN_FLOAT64 = (*_EXACT_IN_FLOAT32, "uint32", "int32", "float64")
# Differences of rows and means are squared and summed over up to 256 rows in the precision of the run.
LARGEST_SPAN = {"float32": 1e18, "float64": 1e150}
# Rows that are narrowed at once, so that the float64 intermediate stays small.
_NARROWED_ROWS = 256


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of an array.

    Kernels are compiled for read-only rows alone, so that each needs one specialisation per dtype.

    Parameters
    ----------
    array : array of any shape and dtype
        The array to protect.

    Returns
    -------
    array
        A view that cannot be written to.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def is_exact(stored: np.dtype[Any], dtype: str) -> bool:
    """Whether kernels take values of a stored dtype unchanged.

    Parameters
    ----------
    stored : dtype
        Dtype of the rows.
    dtype : {"float32", "float64"}
        Dtype in which the kernels compute.

    Returns
    -------
    bool
        True where the conversion in registers loses nothing.
    """
    return stored.name in (_EXACT_IN_FLOAT32 if dtype == "float32" else _EXACT_IN_FLOAT64) and stored.isnative


def working_rows(block: Rows, offset: Float64, dtype: str) -> Rows:
    """Rows as the kernels take them.

    Parameters
    ----------
    block : (n, D) array of any integer or float dtype
        Rows as they are stored.
    offset : (D,) float64 array
        Global offset of the mixture.
    dtype : {"float32", "float64"}
        Dtype in which the kernels compute.

    Returns
    -------
    (n, D) read-only array
        The rows themselves where the conversion in registers is exact and there is no offset; otherwise the rows minus
        the offset, subtracted in float64 before they are narrowed to `dtype`. Values beyond the range of float32 become
        infinite, and no component gives them a finite log-joint.
    """
    if is_exact(block.dtype, dtype) and not offset.any():
        return read_only(block)
    # Float64 before the subtraction: of large values that differ little, float32 would keep the part that they share.
    narrowed = np.empty(block.shape, dtype)
    with np.errstate(over="ignore"):
        for start in range(0, len(block), _NARROWED_ROWS):
            part = slice(start, start + _NARROWED_ROWS)
            np.subtract(block[part], offset, out=narrowed[part], dtype=np.float64, casting="same_kind")
    return read_only(narrowed)
