"""Numbers that stand for others: the attributes by which netCDF, CF and xarray scale them and mark missing values.

Zarr does not know these attributes, xarray decodes by them. May import: zarr.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import struct
from collections.abc import Mapping
from typing import Any

import zarr

_MISSING = ("_FillValue", "missing_value")
_NEUTRAL = {"scale_factor": 1.0, "add_offset": 0.0}


def refuse_packed(label: str, array: zarr.Array[Any], url: str) -> None:
    """Refuse an array whose attributes say that its values are others than the numbers in its chunks.

    Parameters
    ----------
    label : what the array is called, for messages
    array : the array
    url : where its store lies

    Raises
    ------
    ValueError
        With these attributes, and what decodes them.
    """
    found = _packing(array)
    if not found:
        return
    said = ", ".join(f"{name}={_shown(value)!r}" for name, value in found.items())
    folder, name = os.path.split(array.path)
    if not name and not array.path:
        folder, name = "", os.path.basename(url)
        url = os.path.dirname(url)
    if _is_group(url, array, folder):
        inside = f", group={folder!r}" if folder else ""
        way = (
            f"pass xarray.open_zarr({url!r}{inside})[{name!r}], which decodes them (with mask_and_scale=False it gives "
            "the numbers as they are stored)"
        )
    else:
        way = "pass an array of decoded values (number * scale_factor + add_offset, without those that are missing)"
    raise ValueError(f"{label}: the attributes {said} say that the stored numbers are not the values; {way}")


def _is_group(url: str, array: zarr.Array[Any], folder: str) -> bool:
    """Whether a group is known to hold the array: xarray opens groups alone."""
    marks = ("zarr.json", ".zgroup")
    return bool(array.path) or any(os.path.exists(os.path.join(url, folder, mark)) for mark in marks)


def _packing(array: zarr.Array[Any]) -> dict[str, Any]:
    """The attributes of an array that change its values."""
    attributes = dict(array.attrs)
    found = {
        name: attributes[name]
        for name, neutral in _NEUTRAL.items()
        if name in attributes and _number(attributes[name]) != neutral
    }
    found |= {name: attributes[name] for name in _MISSING if name in attributes and not _is_nan(attributes[name])}
    unsigned = str(attributes.get("_Unsigned", "")).lower()
    if (unsigned, array.dtype.kind) in (("true", "i"), ("false", "u")):
        found["_Unsigned"] = attributes["_Unsigned"]
    # In format 2, xarray keeps _FillValue as the fill value of the array. Other writers leave the 0 that is Zarr's own.
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes:
        fill = array.fill_value
        if fill is not None and _number(fill) != 0 and not _is_nan(fill):
            found["_FillValue"] = fill.item() if hasattr(fill, "item") else fill
    return found


def _number(value: Any) -> float | None:
    """A number as JSON holds it, alone or in a list of one; None for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    try:
        return float(value)
    except (TypeError, ValueError):
        return _from_base64(value)


def _from_base64(value: Any) -> float | None:
    """A float as xarray writes it into attributes of format 3."""
    try:
        raw = base64.b64decode(value, validate=True)
        return float(struct.unpack("<d", raw)[0])
    except (TypeError, ValueError, binascii.Error, struct.error):
        return None


def _shown(value: Any) -> Any:
    """A value of an attribute as people read it."""
    decoded = _from_base64(value)
    return value if decoded is None else decoded


def _is_nan(value: Any) -> bool:
    number = _number(value)
    return number is not None and math.isnan(number)


def remedy_for(encoding: Mapping[str, Any]) -> str | None:
    """What helps against NaN in a variable that xarray has decoded; None where xarray has marked nothing as missing."""
    marks = {name: encoding[name] for name in _MISSING if name in encoding and not _is_nan(encoding[name])}
    if not marks:
        return None
    said = ", ".join(f"{name}={getattr(value, 'item', lambda value=value: value)()!r}" for name, value in marks.items())
    return (
        f"xarray gives NaN where {said} is stored: leave these rows out, or open the data with mask_and_scale=False to "
        "train on the numbers as they are stored"
    )
