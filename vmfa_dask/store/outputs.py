"""Outputs for results: created where there is nothing, continued where the same call was interrupted.

May import: numpy, zarr, store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import zarr

from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate
from vmfa_dask.store.results import MARK, Column, Node, ResultStore

# Small chunks let many workers write; many chunks make many files.
_CHUNK_BYTES, _FEWEST_CHUNK_ROWS, _MOST_CHUNK_ROWS, _CHUNKS = 4 * 2**20, 4096, 65_536, 256
# Every chunk is stored, even one of fill values: a missing one means lost data.
_CONFIG: Any = {"write_empty_chunks": True}


def open_results(out: Any, columns: Mapping[str, Column], n_rows: int, call: Mapping[str, Any]) -> ResultStore:
    """Create an output, or continue that of the same call.

    Parameters
    ----------
    out : str, path, zarr.Array or zarr.Group
        Path or URL of an array to create, or of a group where there are several columns. Or one that is open for
        writing, of any chunks: then results of another call are written over.
    columns : mapping of str to Column
        What is stored.
    n_rows : int
        N.
    call : mapping
        JSON values that describe the call.

    Returns
    -------
    ResultStore
        Ready to be written to.

    Raises
    ------
    FileExistsError
        When something else is stored at the path: other data, or the results of another call.
    TypeError
        When `out` is nothing of the kind.
    ValueError
        When an open array has another shape, a dtype that does not hold the results, or is read-only.
    """
    described: dict[str, Any] = json.loads(json.dumps(call))
    if isinstance(out, zarr.Array | zarr.Group):
        return _given(out, columns, n_rows, described)
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"out: found {type(out).__name__}, expected a path, a URL, or an open array or group of zarr")
    path = locate(out)
    node = _node_at(path)
    if node is None:
        return _created(path, columns, n_rows, described)
    mark = _mark_of(node)
    if mark.get("call") != described:
        what = "the results of another call (another model, method or rows)" if mark else "other data"
        raise FileExistsError(f"out={path!r} holds {what}; remove it, or pass another path")
    return ResultStore(node, _arrays_of(node, columns, n_rows), described, mark["done"], path)


def results_at(location: str, columns: Mapping[str, Column]) -> ResultStore:
    """Open an output in another process than that which keeps its notes.

    Parameters
    ----------
    location : str
        Its path or URL.
    columns : mapping of str to Column
        What it stores.

    Returns
    -------
    ResultStore
        For `write` alone.

    Raises
    ------
    FileNotFoundError
        When this process does not find it.
    """
    node = _node_at(location)
    if node is None:
        raise FileNotFoundError(f"out={location!r}: this process finds no output there")
    arrays: dict[str, Any] = {name: node[name] if isinstance(node, zarr.Group) else node for name in columns}
    return ResultStore(node, {name: array.with_config(_CONFIG) for name, array in arrays.items()}, {}, [])


def _node_at(path: str) -> Node | None:
    """What Zarr finds at a path; None where nothing is stored."""
    if "://" not in path and not os.path.isdir(path):
        if os.path.lexists(path):
            raise FileExistsError(f"out={path!r} is a file; remove it, or pass another path")
        return None
    with suppress(FileNotFoundError):
        return zarr.open(zarr_target(path), mode="r+")
    if "://" not in path and os.listdir(path):
        raise FileExistsError(f"out={path!r} is a folder with other files; remove it, or pass another path")
    return None


def _mark_of(node: Node) -> dict[str, Any]:
    mark = node.attrs.get(MARK)
    return mark if isinstance(mark, dict) and isinstance(mark.get("done"), list) else {}


def _created(path: str, columns: Mapping[str, Column], n_rows: int, call: dict[str, Any]) -> ResultStore:
    mark: dict[str, Any] = {MARK: {"call": call, "done": []}}
    if len(columns) > 1:
        group = zarr.create_group(zarr_target(path), attributes=mark)
        return ResultStore(group, _arrays_of(group, columns, n_rows), call, [], path)
    ((name, column),) = columns.items()
    array = zarr.create_array(zarr_target(path), attributes=mark, **_layout(column, n_rows, column.row_bytes))
    return ResultStore(array, {name: array}, call, [], path)


def _layout(column: Column, n_rows: int, row_bytes: int) -> dict[str, Any]:
    most = int(np.clip(-(-n_rows // _CHUNKS), _FEWEST_CHUNK_ROWS, _MOST_CHUNK_ROWS))
    rows = int(np.clip(_CHUNK_BYTES // max(1, row_bytes), 1, min(n_rows, most)))
    return {
        "shape": (n_rows, *column.shape),
        "dtype": column.dtype,
        "chunks": (rows, *(max(1, size) for size in column.shape)),
        "dimension_names": ("sample", *column.dimensions),
        "config": _CONFIG,
    }


def _given(node: Node, columns: Mapping[str, Column], n_rows: int, call: dict[str, Any]) -> ResultStore:
    if node.read_only:
        raise ValueError("out: it was opened for reading only; open it with mode='r+'")
    if isinstance(node, zarr.Group) and len(columns) == 1:
        raise ValueError("out: found a group of zarr, expected an array, or a path where one is created")
    if isinstance(node, zarr.Array) and len(columns) > 1:
        raise ValueError(f"out: found an array of zarr, expected a group for {', '.join(columns)}, or a path")
    mark = _mark_of(node)
    arrays = _arrays_of(node, columns, n_rows)
    if mark.get("call") == call:
        return ResultStore(node, arrays, call, mark["done"])
    output = ResultStore(node, arrays, call, [])
    output.save()
    return output


def _arrays_of(node: Node, columns: Mapping[str, Column], n_rows: int) -> dict[str, Any]:
    """The arrays of an output; those that a group lacks are created."""
    row_bytes = max(column.row_bytes for column in columns.values())
    arrays = {}
    for name, column in columns.items():
        array: Any = node
        if isinstance(node, zarr.Group):
            array = node[name] if name in node else node.create_array(name, **_layout(column, n_rows, row_bytes))
        _check_array(name, array, column, n_rows)
        arrays[name] = array.with_config(_CONFIG)
    return arrays


def _check_array(name: str, array: Any, column: Column, n_rows: int) -> None:
    shape, kinds = (n_rows, *column.shape), "iu" if column.limit else "f"
    if not isinstance(array, zarr.Array) or array.shape != shape:
        raise ValueError(f"out: {name} has shape {getattr(array, 'shape', None)}, expected {shape}")
    if array.dtype.kind not in kinds or (column.limit and np.iinfo(array.dtype).max < column.limit - 1):
        expected = f"an integer that holds {column.limit - 1}" if column.limit else "a float"
        raise ValueError(f"out: {name} has dtype {array.dtype}, expected {expected}, such as {column.dtype}")
