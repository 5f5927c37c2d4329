"""Whatever NumPy takes as an array, as plain numbers: nothing behind a mask, nothing that is no number.

May import: numpy, tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.tables import check_table

EXPECTED = (
    "expected the path or URL of a Zarr store, an array of zarr, xarray, dask or NumPy, the path of a .npy file, a "
    "data frame of pandas or dask, a group of zarr, a data set of xarray, or lists of numbers"
)

_WAY_OUT = "leave their rows out, or fill them (filled(value)) with numbers that stand for what was measured"


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
        masked = sum(_masked_items(data))
        if masked:
            raise ValueError(f"{label}: {masked} values in these lists are masked; {_WAY_OUT}")
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
    mask = _mask_of(data)
    if mask is None or not mask.any():
        return
    place = tuple(int(n) for n in np.unravel_index(int(np.argmax(mask)), mask.shape))
    found = f"{np.count_nonzero(mask)} of {mask.size} values are masked, the first one at {place}"
    raise ValueError(f"{label}: {found}; {_WAY_OUT}")


def _mask_of(data: Any) -> NDArray[np.bool_] | None:
    """Where an array is masked; classes of other packages carry their mask under the same name as NumPy's own."""
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.getmaskarray(data)
    mask = getattr(data, "mask", None) if isinstance(data, np.ndarray) else None
    return mask if isinstance(mask, np.ndarray) and mask.dtype == bool else None


def _masked_items(items: list[Any] | tuple[Any, ...]) -> Iterator[int]:
    """Number of masked values in each item of nested lists: NumPy would take what is behind the masks."""
    for item in items:
        if isinstance(item, list | tuple):
            yield from _masked_items(item)
        elif isinstance(item, np.ndarray):
            mask = _mask_of(item)
            yield 0 if mask is None else int(np.count_nonzero(mask))
