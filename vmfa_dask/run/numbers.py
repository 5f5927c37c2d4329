"""Numbers as people hand them in: scalars of NumPy are Python's own from here on. May import: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A value of Python's own types in place of one of NumPy's; lists, tuples and arrays item by item.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    object
        Scalars of NumPy and arrays without axes become bool, int, float or str, arrays with axes tuples. Everything
        else is returned as it is.
    """
    if isinstance(value, np.ndarray):
        return plain(value[()]) if value.ndim == 0 else tuple(plain(item) for item in value)
    if isinstance(value, np.generic):
        item = value.item()
        # A long double is its own item.
        return float(item) if isinstance(item, np.floating) else item
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    return value
