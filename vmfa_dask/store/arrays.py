"""Arrays that are written once and read whole: one chunk with a checksum, refused when it is gone or was changed.

Zarr writes them and other programs read them with it. Here they are read without it: metadata must be what
`write_array` lets Zarr write, word for word, so that no other format, codec or dtype is ever looked up, and a chunk is
numbers as they are in memory. What a shape asks for is compared with what is stored before memory is taken.
May import: numpy, zarr, google_crc32c, store.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from vmfa_dask.store.places import Place
from vmfa_dask.store.strict import MOST_METADATA, as_json, as_text

METADATA = "zarr.json"
# Marks of Zarr's format 2, whose metadata can name code.
_FORMAT_2 = (".zgroup", ".zarray", ".zmetadata")
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_GROUP_MEMBERS = {"attributes", "zarr_format", "node_type", "consolidated_metadata"}  # the last one is never looked at
_CHUNK_KEYS = {"name": "default", "configuration": {"separator": "/"}}
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_FLOATS = ("float32", "float64")
# What arrays of these names may hold; others any of the dtypes above.
_DTYPES_OF = {
    **dict.fromkeys(("means", "centered_means", "loadings", "noise_variances"), _FLOATS),
    **dict.fromkeys(("weights", "offset", "scales", "floors", "variances"), ("float64",)),
    **dict.fromkeys(("neighbors", "components", "donors"), ("int32",)),
    **dict.fromkeys(("seed_rows", "first_row"), ("int64",)),
    "resting": ("uint8",),
}
_CHECKSUM_BYTES = 4


def write_array(group: zarr.Group, name: str, array: NDArray[Any], dimensions: tuple[str, ...] | None = None) -> None:
    """Store an array in a group, with the names of its dimensions for xarray."""
    chunks = tuple(max(1, n) for n in array.shape)
    # A chunk that equals the fill value would not be written, and a chunk that is gone would be read as fill values.
    stored = group.create_array(
        name,
        shape=array.shape,
        dtype=array.dtype,
        chunks=chunks,
        dimension_names=dimensions,
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    if array.size:
        stored[...] = array


def describe(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """What arrays are recognised by, as JSON values: dtype, shape and checksum of the stored numbers by name."""
    return {
        name: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "crc32c": f"{google_crc32c.value(np.ascontiguousarray(array, array.dtype.newbyteorder('<'))):08x}",
        }
        for name, array in sorted(arrays.items())
    }


def read_group(place: Place, group: str) -> dict[str, Any] | None:
    """Attributes of a group; None where nothing is stored.

    Parameters
    ----------
    place, group : where it lies: a place, and a name relative to it, which may be empty

    Raises
    ------
    ValueError
        Naming the file when it is damaged, or the folder when it is of another format.
    """
    where = _path(place, group, METADATA)
    content = place.fetch(_join(group, METADATA), MOST_METADATA)
    if content is None:
        if found := _mark_of_format_2(place, group):
            raise ValueError(f"{_path(place, group)} holds {found}, so it is Zarr format 2, expected 3; not read")
        return None
    values = as_json(as_text(content, where), where)
    _check_members(values, {"zarr_format": [3], "node_type": ["group"]}, _GROUP_MEMBERS, where)
    attributes = values.get("attributes", {})
    if not isinstance(attributes, dict):
        raise ValueError(f"{where}: damaged: attributes are {_shown(attributes)}, expected an object")
    return attributes


def read_array(place: Place, group: str, name: str) -> NDArray[Any]:
    """Read an array that `write_array` stored; the result is read-only.

    Raises
    ------
    ValueError
        Naming the array when it is missing, incomplete, not of the kind that `write_array` stores, or when its bytes
        are not those that were written.
    """
    what = f"{_path(place, group)}: the array {name!r}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{_path(place, group)}: damaged: {name!r} is no name of an array")
    node = _join(group, name)
    content = place.fetch(f"{node}/{METADATA}", MOST_METADATA)
    if content is None:
        if found := _mark_of_format_2(place, node):
            raise ValueError(f"{what} holds {found}, so it is Zarr format 2, expected 3; not read")
        raise ValueError(f"{what} is missing; the file is incomplete")
    where = f"{what} is damaged: {METADATA}"
    shape, dtype = _declared(as_json(as_text(content, where), where), name, where)
    n_numbers, key = math.prod(shape), f"{node}/{'/'.join(['c', *['0'] * len(shape)])}"
    expected = n_numbers * dtype.itemsize + _CHECKSUM_BYTES if n_numbers else 0
    try:
        chunk = place.fetch(key, expected)
    except ValueError as error:
        raise ValueError(f"{what} is damaged: shape {list(shape)} of {dtype.name}: {error}") from error
    if not n_numbers and chunk is None:
        return _read_only(np.empty(shape, dtype))
    if chunk is None:
        raise ValueError(f"{what} lacks numbers; the file is incomplete")
    if len(chunk) != expected or not n_numbers:
        raise ValueError(
            f"{what} is damaged: its chunk has {len(chunk)} bytes, expected {expected} "
            f"for the shape {list(shape)} of {dtype.name}"
        )
    numbers = np.frombuffer(chunk, np.uint8, len(chunk) - _CHECKSUM_BYTES)
    if google_crc32c.value(numbers) != int.from_bytes(chunk[-_CHECKSUM_BYTES:], "little"):
        raise ValueError(f"{what} is damaged: its checksum does not match; restore it from a copy")
    return _read_only(numbers.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape))


def _declared(values: dict[str, Any], name: str, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype that metadata declare, once every member is known to be one that `write_array` writes."""
    shape, kind, dimensions = values.get("shape"), values.get("data_type"), values.get("dimension_names")
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**60 for n in shape):
        raise ValueError(f"{where}: shape is {_shown(shape)}, expected up to 8 whole numbers")
    _check_members({"data_type": kind}, {"data_type": list(_DTYPES_OF.get(name, _DTYPES))}, {"data_type"}, where)
    dtype = np.dtype(str(kind))
    orders = ["little", "big"] if dtype.itemsize > 1 else []
    codecs: list[Any] = [
        [{"name": "bytes", **({"configuration": {"endian": order}} if orders else {})}, {"name": "crc32c"}]
        for order in orders or [""]
    ]
    grid = {"name": "regular", "configuration": {"chunk_shape": [max(1, n) for n in shape]}}
    fixed: dict[str, list[Any]] = {
        "zarr_format": [3],
        "node_type": ["array"],
        "chunk_grid": [grid],
        "chunk_key_encoding": [_CHUNK_KEYS],
        "codecs": codecs,
        "fill_value": [False, 0, 0.0],
    }
    others = {"shape", "data_type", "dimension_names", "attributes", "storage_transformers"}
    _check_members(values, fixed, {*fixed, *others}, where)
    if values.get("storage_transformers", []) != []:
        raise ValueError(f"{where}: storage_transformers are {_shown(values['storage_transformers'])}, expected none")
    if dimensions is not None and not (isinstance(dimensions, list) and len(dimensions) == len(shape)):
        raise ValueError(f"{where}: dimension_names are {_shown(dimensions)}, expected {len(shape)} names")
    swapped = bool(orders) and values["codecs"] == codecs[1]
    return tuple(shape), dtype.newbyteorder(">" if swapped else "<")


def _check_members(values: dict[str, Any], fixed: dict[str, list[Any]], known: set[str], where: str) -> None:
    """Refuse members with other values than the listed ones, and members that are not known."""
    for name, allowed in fixed.items():
        # As text, so that true is not 1.
        if json.dumps(values.get(name), sort_keys=True) not in [json.dumps(value, sort_keys=True) for value in allowed]:
            expected = " or ".join(_shown(value) for value in allowed)
            raise ValueError(f"{where}: {name} is {_shown(values.get(name))}, expected {expected}")
    if unknown := sorted(set(values) - known):
        raise ValueError(f"{where}: holds the unknown member {unknown[0][:60]!r}")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def _mark_of_format_2(place: Place, node: str) -> str | None:
    """The file that marks a node of Zarr's format 2, if there is one; it is not read."""
    for name in _FORMAT_2:
        try:
            if place.fetch(_join(node, name), MOST_METADATA) is not None:
                return name
        except ValueError:
            return name
    return None


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _path(place: Place, *parts: str) -> str:
    return _join(place.path, *parts)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
