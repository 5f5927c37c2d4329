"""Arrays that are written once and read in full: one chunk with a checksum, refused if missing or changed.

Zarr writes them, and other programs can read them with Zarr. Here they are read without it: metadata must be exactly
what `write_array` lets Zarr write, so that no other format, codec or dtype is ever looked up, and a chunk holds plain
numbers as in memory. The size of a shape is compared with the bytes that are stored before memory is allocated.
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
# Files of Zarr's format 2, whose metadata can name code to run.
_FORMAT_2 = (".zgroup", ".zarray", ".zmetadata")
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_GROUP_MEMBERS = {"attributes", "zarr_format", "node_type", "consolidated_metadata"}  # the last is ignored
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
_CHECKSUM_BYTES = 4


def write_array(group: zarr.Group, name: str, array: NDArray[Any], dimensions: tuple[str, ...] | None = None) -> None:
    """Store an array in a group, as one chunk with a checksum.

    Parameters
    ----------
    group : zarr.Group
        Open for writing, in Zarr's format 3.
    name : str
        Name of the array in the group.
    array : array
        Any of the dtypes of this module, any shape of up to 8 dimensions.
    dimensions : tuple of str or None
        Names of its dimensions, for xarray.
    """
    chunks = tuple(max(1, n) for n in array.shape)
    # By default zarr leaves out chunks of fill values, and such a chunk could not be told from a lost one.
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
    """Describe arrays by dtype, shape and checksum, so that they can be recognised later.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays by name, in any byte order.

    Returns
    -------
    dict
        By name, JSON values ``dtype``, ``shape`` and ``crc32c``: the checksum of the numbers in little-endian order.
    """
    return {
        name: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "crc32c": f"{google_crc32c.value(np.ascontiguousarray(array, array.dtype.newbyteorder('<'))):08x}",
        }
        for name, array in sorted(arrays.items())
    }


def read_group(place: Place, group: str) -> dict[str, Any] | None:
    """Read the attributes of a group.

    Parameters
    ----------
    place : Place
        Folder or prefix that holds the group.
    group : str
        Name of the group relative to the place; empty for the place itself.

    Returns
    -------
    dict or None
        The attributes; None if there is no group.

    Raises
    ------
    ValueError
        If its metadata is damaged or of another format; the message names the file or the folder.
    OSError
        If it cannot be read.
    """
    where = _path(place, group, METADATA)
    content = place.fetch(_join(group, METADATA), MOST_METADATA)
    if content is None:
        _refuse_format_2(place, group, _path(place, group))
        return None
    values = as_json(as_text(content, where), where)
    _check_members(values, {"zarr_format": [3], "node_type": ["group"]}, _GROUP_MEMBERS, where)
    attributes = values.get("attributes", {})
    if not isinstance(attributes, dict):
        raise ValueError(f"{where}: damaged: attributes are {_shown(attributes)}, expected an object")
    return attributes


def read_array(place: Place, group: str, name: str) -> NDArray[Any]:
    """Read an array that `write_array` stored.

    Parameters
    ----------
    place : Place
        Folder or prefix that holds the group.
    group : str
        Name of the group relative to the place; empty for the place itself.
    name : str
        Name of the array in the group.

    Returns
    -------
    array
        Read-only, in native byte order.

    Raises
    ------
    ValueError
        If the array is missing, incomplete, not of the kind that `write_array` stores, or if its bytes are not those
        that were written; the message names the array.
    OSError
        If it cannot be read.
    """
    label = f"{_path(place, group)}: the array {name!r}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{_path(place, group)}: damaged: {name!r} is not a valid name of an array")
    node = _join(group, name)
    metadata = place.fetch(f"{node}/{METADATA}", MOST_METADATA)
    if metadata is None:
        _refuse_format_2(place, node, label)
        raise ValueError(f"{label} is missing; the file is incomplete")
    where = f"{label} is damaged: {METADATA}"
    shape, dtype = _declared(as_json(as_text(metadata, where), where), name, where)
    return _read_chunk(place, node, shape, dtype, label)


def _read_chunk(
    place: Place, node: str, shape: tuple[int, ...], dtype: np.dtype[Any], label: str
) -> NDArray[Any]:
    """The numbers of an array from its only chunk, once their count and checksum are right."""
    n_numbers, key = math.prod(shape), f"{node}/{'/'.join(['c', *['0'] * len(shape)])}"
    expected = n_numbers * dtype.itemsize + _CHECKSUM_BYTES if n_numbers else 0
    try:
        chunk = place.fetch(key, expected)
    except ValueError as error:
        raise ValueError(f"{label} is damaged: shape {list(shape)} of {dtype.name}: {error}") from error
    if not n_numbers and chunk is None:
        return _read_only(np.empty(shape, dtype))
    if chunk is None:
        raise ValueError(f"{label} lacks numbers; the file is incomplete")
    if len(chunk) != expected or not n_numbers:
        raise ValueError(
            f"{label} is damaged: its chunk has {len(chunk)} bytes, expected {expected} "
            f"for the shape {list(shape)} of {dtype.name}"
        )
    numbers = np.frombuffer(chunk, np.uint8, len(chunk) - _CHECKSUM_BYTES)
    if google_crc32c.value(numbers) != int.from_bytes(chunk[-_CHECKSUM_BYTES:], "little"):
        raise ValueError(f"{label} is damaged: its checksum does not match; restore it from a copy")
    return _read_only(numbers.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape))


def _declared(values: dict[str, Any], name: str, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype that metadata declares, once every member is known to be one that `write_array` writes."""
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
    big_endian = bool(orders) and values["codecs"] == codecs[1]
    return tuple(shape), dtype.newbyteorder(">" if big_endian else "<")


def _check_members(values: dict[str, Any], fixed: dict[str, list[Any]], names: set[str], where: str) -> None:
    """Refuse members of `fixed` whose value is not one of those listed, and members that are not in `names`."""
    for name, allowed in fixed.items():
        # Compared as text, so that true is not taken for 1.
        if json.dumps(values.get(name), sort_keys=True) not in [json.dumps(value, sort_keys=True) for value in allowed]:
            expected = " or ".join(_shown(value) for value in allowed)
            raise ValueError(f"{where}: {name} is {_shown(values.get(name))}, expected {expected}")
    if unknown := sorted(set(values) - names):
        raise ValueError(f"{where}: holds the unknown member {unknown[0][:60]!r}")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def _refuse_format_2(place: Place, node: str, label: str) -> None:
    """Raise if a node is of Zarr's format 2; the file that marks it is not interpreted."""
    for name in _FORMAT_2:
        try:
            exists = place.fetch(_join(node, name), MOST_METADATA) is not None
        except ValueError:  # not a regular file, or too long
            exists = True
        if exists:
            raise ValueError(f"{label} holds {name}, so it is Zarr format 2, expected 3; not read")


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _path(place: Place, *parts: str) -> str:
    return _join(place.path, *parts)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
