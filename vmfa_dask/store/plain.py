"""Whatever NumPy takes as an array, as plain numbers: nothing behind a mask, nothing that is no number.

May import: numpy, values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.values import check_table

EXPECTED = (
    "expected the path or URL of a Zarr store, an array of zarr, xarray, dask or NumPy, the path of a .npy file, a data "
    "frame of pandas or dask, a group of zarr, a data set of xarray, or lists of numbers"
)


def plain_array(label: str, data: Any) -> NDArray[Any]:
    """The numbers of an array, of what gives itself as one, or of nested lists, (n, ...).

    Parameters
    ----------
    label : name of the argument, for messages

    Raises
    ------
    TypeError
        When it is nothing of the kind.
    ValueError
        When values are masked, or it is no table of numbers.
    """
    kind = f"{type(data).__module__}.{type(data).__name__}"
    listed = isinstance(data, list | tuple)
    if not listed and not hasattr(data, "__array__") and not hasattr(data, "__array_interface__"):
        raise TypeError(f"{label}: found {kind}, {EXPECTED}")
    if listed:
        _refuse_masked_items(label, data)
    else:
        refuse_masked(label, data)
    try:
        values = np.asarray(data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{label}: {kind} cannot be taken as an array of numbers: {error}") from error
    check_table(label, values.shape, values.dtype)
    return values


def refuse_masked(label: str, data: Any) -> None:
    """Refuse an array some of whose values are masked; one whose mask hides nothing is its data.

    Raises
    ------
    ValueError
        With the number of masked values, the place of the first one, and what can be done.
    """
    if not isinstance(data, np.ndarray) or type(data) is np.ndarray:
        return
    # Classes of other packages carry their mask under the same name as NumPy's own.
    mask = np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else getattr(data, "mask", None)
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or not mask.any():
        return
    place = tuple(int(n) for n in np.unravel_index(int(np.argmax(mask)), mask.shape))
    raise ValueError(
        f"{label}: {np.count_nonzero(mask)} of {mask.size} values are masked, the first one at {place}; leave their "
        "rows out, or fill them (filled(value)) with numbers that stand for what was measured"
    )


def _refuse_masked_items(label: str, items: list[Any] | tuple[Any, ...]) -> None:
    """Refuse nested lists that hold masked values: NumPy would take what is behind the mask."""
    for item in items:
        if isinstance(item, list | tuple):
            _refuse_masked_items(label, item)
        else:
            refuse_masked(label, item)
