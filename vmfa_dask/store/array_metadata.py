"""Metadata of stored arrays: exactly what `store.arrays` lets Zarr write, so that nothing else is ever looked up.

May import: numpy.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

_CHUNK_KEYS = {"name": "default", "configuration": {"separator": "/"}}
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_FLOATS = ("float32", "float64")
# Dtypes allowed for arrays of these names; others may have any of the above.
_DTYPES_OF = {
    **dict.fromkeys(("means", "centered_means", "loadings", "noise_variances"), _FLOATS),
    **dict.fromkeys(("weights", "offset", "scales", "floors", "variances"), ("float64",)),
    **dict.fromkeys(("neighbors", "components", "donors"), ("int32",)),
    **dict.fromkeys(("seed_rows", "first_row"), ("int64",)),
    "resting": ("uint8",),
}


def declared(values: dict[str, Any], name: str, where: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """What the metadata of an array declares, once every member is known to be one that `write_array` writes.

    Parameters
    ----------
    values : dict
        The metadata.
    name : str
        Name of the array, by which its dtype is restricted.
    where : str
        What messages begin with.

    Returns
    -------
    shape : tuple of int
        Shape of the array.
    dtype : dtype
        In the byte order of its chunks.
    length : int
        How much of the first axis a chunk holds.

    Raises
    ------
    ValueError
        Naming the first member that is another.
    """
    shape, kind, dimensions = values.get("shape"), values.get("data_type"), values.get("dimension_names")
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**60 for n in shape):
        raise ValueError(f"{where}: shape is {shown(shape)}, expected up to 8 whole numbers")
    check_members({"data_type": kind}, {"data_type": list(_DTYPES_OF.get(name, _DTYPES))}, {"data_type"}, where)
    dtype = np.dtype(str(kind))
    orders = ["little", "big"] if dtype.itemsize > 1 else []
    codecs: list[Any] = [
        [{"name": "bytes", **({"configuration": {"endian": order}} if orders else {})}, {"name": "crc32c"}]
        for order in orders or [""]
    ]
    length = _declared_length(values, shape)
    chunk = [length, *(max(1, n) for n in shape[1:])][: len(shape)]
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    fixed: dict[str, list[Any]] = {
        "zarr_format": [3],
        "node_type": ["array"],
        "chunk_grid": [grid],
        "chunk_key_encoding": [_CHUNK_KEYS],
        "codecs": codecs,
        "fill_value": [False, 0, 0.0],
    }
    others = {"shape", "data_type", "dimension_names", "attributes", "storage_transformers"}
    check_members(values, fixed, {*fixed, *others}, where)
    if values.get("storage_transformers", []) != []:
        raise ValueError(f"{where}: storage_transformers are {shown(values['storage_transformers'])}, expected none")
    if dimensions is not None and not (isinstance(dimensions, list) and len(dimensions) == len(shape)):
        raise ValueError(f"{where}: dimension_names are {shown(dimensions)}, expected {len(shape)} names")
    big_endian = bool(orders) and values["codecs"] == codecs[1]
    return tuple(shape), dtype.newbyteorder(">" if big_endian else "<"), length


def _declared_length(values: dict[str, Any], shape: list[int]) -> int:
    """What metadata names as the length of a chunk, where it cuts the first axis; else that of the axis."""
    length = max(1, shape[0]) if shape else 1
    try:
        declared = values["chunk_grid"]["configuration"]["chunk_shape"][0]
    except (KeyError, TypeError, IndexError):
        return length
    return declared if type(declared) is int and 1 <= declared <= length else length


def check_members(values: dict[str, Any], fixed: dict[str, list[Any]], names: set[str], where: str) -> None:
    """Refuse members whose value is not one of those listed, and unknown members.

    Parameters
    ----------
    values : dict
        JSON values.
    fixed : dict of str to list
        The values that a member may have.
    names : set of str
        Members that may be there.
    where : str
        What messages begin with.

    Raises
    ------
    ValueError
        Naming the member, what was found and what is expected.
    """
    for name, allowed in fixed.items():
        # Compared as text, so that true is not taken for 1.
        if json.dumps(values.get(name), sort_keys=True) not in [json.dumps(value, sort_keys=True) for value in allowed]:
            expected = " or ".join(shown(value) for value in allowed)
            raise ValueError(f"{where}: {name} is {shown(values.get(name))}, expected {expected}")
    if unknown := sorted(set(values) - names):
        raise ValueError(f"{where}: holds the unknown member {unknown[0][:60]!r}")


def shown(value: Any) -> str:
    """A JSON value in a message: its beginning, where it is long.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    str
    """
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
