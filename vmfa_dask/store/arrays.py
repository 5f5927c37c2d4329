"""Arrays that are written once and read in full: chunks with checksums, refused if missing or changed.

Zarr writes them, and other programs can read them with Zarr. Here they are read without it: metadata must be exactly
what `write_array` lets Zarr write, so that no other format, codec or dtype is ever looked up, and a chunk holds plain
numbers as in memory. Most arrays are one chunk; very large ones are cut along their first axis. The size of a chunk is
compared with the bytes that are stored before memory is allocated.
May import: numpy, zarr, google_crc32c, store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from vmfa_dask.store.array_metadata import check_members, declared, shown
from vmfa_dask.store.places import Place
from vmfa_dask.store.strict import MOST_METADATA, as_json, as_text

METADATA = "zarr.json"
# Files of Zarr's format 2, whose metadata can name code to run.
_FORMAT_2 = (".zgroup", ".zarray", ".zmetadata")
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_GROUP_MEMBERS = {"attributes", "zarr_format", "node_type", "consolidated_metadata"}  # the last is ignored
_CHECKSUM_BYTES = 4


def chunk_length(array: NDArray[Any], most_bytes: int | None) -> int:
    """How much of the first axis a chunk holds.

    Parameters
    ----------
    array : array
        To be stored.
    most_bytes : int or None
        Size of a chunk, at most, unless a single entry is larger; None for one chunk.

    Returns
    -------
    int
    """
    length = array.shape[0] if array.ndim else 1
    if most_bytes is None or array.nbytes <= most_bytes:
        return max(1, length)
    return max(1, most_bytes // (array.nbytes // length))


def write_array(
    group: zarr.Group,
    name: str,
    array: NDArray[Any],
    dimensions: tuple[str, ...] | None = None,
    most_bytes: int | None = None,
) -> None:
    """Store an array in a group, with a checksum for each chunk.

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
    most_bytes : int or None
        Size of a chunk, at most; None for one chunk.
    """
    length = chunk_length(array, most_bytes)
    chunks = (length, *(max(1, n) for n in array.shape[1:])) if array.ndim else ()
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
    if array.size and length >= len(np.atleast_1d(array)):
        stored[...] = array
    elif array.size:
        for start in range(0, len(array), length):  # one at a time: zarr would hold copies of several
            stored[start : start + length] = array[start : start + length]


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
    check_members(values, {"zarr_format": [3], "node_type": ["group"]}, _GROUP_MEMBERS, where)
    attributes = values.get("attributes", {})
    if not isinstance(attributes, dict):
        raise ValueError(f"{where}: damaged: attributes are {shown(attributes)}, expected an object")
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
    shape, dtype, length = declared(as_json(as_text(metadata, where), where), name, where)
    if not shape or length >= shape[0] or not math.prod(shape):
        return _read_only(_read_chunk(place, node, 0, shape, dtype, label))
    whole: NDArray[Any] | None = None
    for number, start in enumerate(range(0, shape[0], length)):
        # The last chunk is as long as the others; fill values follow its numbers.
        chunk = _read_chunk(place, node, number, (length, *shape[1:]), dtype, label)
        if whole is None:
            try:
                whole = np.empty(shape, chunk.dtype)
            except (MemoryError, ValueError) as error:
                raise ValueError(f"{label}: there is no memory for the shape {list(shape)} of {dtype.name}") from error
        whole[start : start + length] = chunk[: shape[0] - start]
    assert whole is not None
    return _read_only(whole)


def _read_chunk(
    place: Place, node: str, number: int, shape: tuple[int, ...], dtype: np.dtype[Any], label: str
) -> NDArray[Any]:
    """The numbers of a chunk, once their count and checksum are right."""
    n_numbers, key = math.prod(shape), "/".join([node, "c", *[str(number)][: len(shape)], *["0"] * (len(shape) - 1)])
    expected = n_numbers * dtype.itemsize + _CHECKSUM_BYTES if n_numbers else 0
    try:
        chunk = place.fetch(key, expected)
    except ValueError as error:
        raise ValueError(f"{label} is damaged: shape {list(shape)} of {dtype.name}: {error}") from error
    if not n_numbers and chunk is None:
        return np.empty(shape, dtype)
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
    return numbers.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape)


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
