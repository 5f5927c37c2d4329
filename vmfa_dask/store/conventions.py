"""What attributes and names say about stored numbers, by the conventions of netCDF, CF and xarray.

Dimension names say which axis counts samples. The attributes ``scale_factor``, ``add_offset``, ``_FillValue``,
``missing_value`` and ``_Unsigned`` say that the stored numbers stand for others; xarray decodes by them, Zarr does not
know them. xarray is not imported. May import: tables, zarr.
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

from vmfa_dask.tables import Origin

# Names of a dimension that leave no doubt that it counts samples. "rows" is not one of them: images have rows too.
_SAMPLE_NAMES = ("sample", "samples", "n", "obs", "observation", "observations", "image", "images")
_MISSING = ("_FillValue", "missing_value")
_NEUTRAL = {"scale_factor": 1.0, "add_offset": 0.0}


def counts_samples(dimension: str) -> bool:
    """Whether a dimension counts samples, judged by its name alone.

    Parameters
    ----------
    dimension : str
        Name of a dimension, in any case.

    Returns
    -------
    bool
        False where the name leaves doubt.
    """
    return dimension.lower() in _SAMPLE_NAMES


def check_first_dimension(label: str, array: zarr.Array[Any]) -> None:
    """Refuse an array whose dimension names say that samples are not counted by the first dimension.

    Parameters
    ----------
    label : str
        What the array is called in messages.
    array : zarr.Array
        Its names are those of format 3, or the attribute of xarray in format 2.

    Raises
    ------
    ValueError
        With the names.
    """
    attribute = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
    names = [str(name) for name in attribute] if isinstance(attribute, list | tuple) else []
    if names and not counts_samples(names[0]) and any(map(counts_samples, names[1:])):
        raise ValueError(
            f"{label}: rows are the first dimension, and the dimensions are called {', '.join(map(repr, names))}; open "
            "it with xarray and name the one that counts samples by sample_dim=..."
        )


def samples_first(label: str, data: Any, array: str | None, sample_dim: str | None) -> tuple[Any, Origin]:
    """Take the array out of an xarray object, with the dimension that counts samples in front.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    data : xarray.DataArray, xarray.Dataset or xarray.DataTree
        Where the rows are.
    array, sample_dim : str, optional
        As in `labelled_rows`.

    Returns
    -------
    values : array_like
        What the variable holds, (N, ...): an array of NumPy, of Dask, or something like one.
    origin : Origin
        What the rows are called in messages, and what helps where they hold NaN.

    Raises
    ------
    ValueError
        Where the variable or the dimension is not clear; the message lists the choices.
    """
    rows = labelled_rows(label, data, array, sample_dim)
    label = label if rows.name is None else f"{label}: variable {str(rows.name)!r}"
    remedy = _remedy_for_nan(rows.encoding)
    return rows.data, Origin(label, remedy) if remedy else Origin(label)


def labelled_rows(label: str, data: Any, array: str | None, sample_dim: str | None) -> Any:
    """Choose the variable of an xarray object, and bring the dimension that counts samples to the front.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    data : xarray.DataArray, xarray.Dataset or xarray.DataTree
        Where the rows are.
    array : str, optional
        Name of the variable in a Dataset, or its path in a DataTree; may be left out where there is only one.
    sample_dim : str, optional
        Dimension that counts samples; may be left out where the name of the first one leaves no doubt.

    Returns
    -------
    xarray.DataArray
        Of shape (N, ...); no values are read or copied.

    Raises
    ------
    ValueError
        Where the variable or the dimension is not clear; the message lists the choices.
    """
    if hasattr(data, "data_vars"):
        data = _chosen_variable(label, data, array)
    elif array is not None:
        raise ValueError(f"array={array!r}: {label} is a DataArray itself; array=... chooses a variable of a Dataset")
    dims = [str(dim) for dim in data.dims]
    if sample_dim is None and dims and counts_samples(dims[0]):
        sample_dim = dims[0]
    if sample_dim not in dims:
        raise ValueError(
            f"{label}: a DataArray with the dimensions {', '.join(map(repr, dims)) or 'none'}; name the one that "
            f"counts samples by sample_dim=..., found sample_dim={sample_dim!r} (only a first dimension called "
            f"{', '.join(_SAMPLE_NAMES[:-1])} or {_SAMPLE_NAMES[-1]} is taken without asking)"
        )
    return data.transpose(sample_dim, ...)


def _chosen_variable(label: str, data: Any, array: str | None) -> Any:
    variables = _variables(data)
    names = list(variables)
    name = names[0] if array is None and len(names) == 1 else (array or "").strip("/")
    if name not in variables:
        raise ValueError(
            f"{label}: a {type(data).__name__} with the variables {', '.join(map(repr, names)) or 'none'}; choose "
            f"one by the argument array=..., found array={array!r}"
        )
    return variables[name]


def _variables(data: Any) -> dict[str, Any]:
    """Variables of a Dataset by name, of a DataTree by path."""
    if not hasattr(data, "subtree"):
        return {str(name): data[name] for name in data.data_vars}
    variables: dict[str, Any] = {}
    for node in data.subtree:
        folder = node.path.strip("/")
        variables |= {f"{folder}/{name}".lstrip("/"): node.dataset[name] for name in node.data_vars}
    return variables


def _remedy_for_nan(encoding: Mapping[str, Any]) -> str | None:
    """What helps against NaN in a variable that xarray has decoded; None where it has marked nothing as missing."""
    marks = {name: encoding[name] for name in _MISSING if name in encoding and not _is_nan(encoding[name])}
    if not marks:
        return None
    values = {name: value.item() if hasattr(value, "item") else value for name, value in marks.items()}
    listed = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return (
        f"xarray gives NaN where {listed} is stored: leave these rows out, or open the data with mask_and_scale=False "
        "to train on the numbers as they are stored"
    )


def refuse_packed(label: str, array: zarr.Array[Any], url: str) -> None:
    """Refuse an array whose attributes say that the numbers in its chunks are not its values.

    Parameters
    ----------
    label : str
        What the array is called in messages.
    array : zarr.Array
        The array.
    url : str
        Path or URL of its store; empty for one in memory.

    Raises
    ------
    ValueError
        With these attributes, and a way to decode them.
    """
    attributes = _packing(array)
    if not attributes:
        return
    listed = ", ".join(f"{name}={_shown(value)!r}" for name, value in attributes.items())
    folder, name = os.path.split(array.path)
    if not name and not array.path:
        folder, name = "", os.path.basename(url)
        url = os.path.dirname(url)
    if _is_group(url, array, folder):
        inside = f", group={folder!r}" if folder else ""
        remedy = (
            f"pass xarray.open_zarr({url!r}{inside})[{name!r}], which decodes them (with mask_and_scale=False it gives "
            "the numbers as they are stored)"
        )
    else:
        remedy = "pass an array of decoded values (number * scale_factor + add_offset, without those that are missing)"
    raise ValueError(f"{label}: the attributes {listed} say that the stored numbers are not the values; {remedy}")


def _is_group(url: str, array: zarr.Array[Any], folder: str) -> bool:
    """Whether a group is known to hold the array: xarray opens only groups."""
    markers = ("zarr.json", ".zgroup")
    return bool(array.path) or any(os.path.exists(os.path.join(url, folder, marker)) for marker in markers)


def _packing(array: zarr.Array[Any]) -> dict[str, Any]:
    """The attributes of an array that change its values."""
    attributes = dict(array.attrs)
    packing = {
        name: attributes[name]
        for name, neutral in _NEUTRAL.items()
        if name in attributes and _number(attributes[name]) != neutral
    }
    packing |= {name: attributes[name] for name in _MISSING if name in attributes and not _is_nan(attributes[name])}
    unsigned = str(attributes.get("_Unsigned", "")).lower()
    if (unsigned, array.dtype.kind) in (("true", "i"), ("false", "u")):
        packing["_Unsigned"] = attributes["_Unsigned"]
    # In format 2, xarray keeps _FillValue as the fill value of the array. Other writers leave Zarr's own default, 0.
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes:
        fill = array.fill_value
        if fill is not None and _number(fill) != 0 and not _is_nan(fill):
            packing["_FillValue"] = fill.item() if hasattr(fill, "item") else fill
    return packing


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
    """The value of an attribute in a readable form."""
    decoded = _from_base64(value)
    return value if decoded is None else decoded


def _is_nan(value: Any) -> bool:
    number = _number(value)
    return number is not None and math.isnan(number)
