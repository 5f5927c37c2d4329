"""Chunks of an array that are not in its store, and stored chunks that do not belong to the array.

May import: zarr, store.
"""

from __future__ import annotations

import itertools
import logging
import os
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.storage import LocalStore

from vmfa_dask.store.contents import stamps_of
from vmfa_dask.store.keys import ChunkGrid
from vmfa_dask.store.regular import irregular
from vmfa_dask.store.shards import ShardLayout, layout_of

logger = logging.getLogger("vmfa_dask")


@dataclass(frozen=True)
class Completeness:
    """What a store lacks of an array, and what it holds beyond it. Stored objects are shards if there are any.

    Zarr silently reads what is not stored as the fill value. The writer may have left out chunks that hold nothing
    else, but an interrupted copy or a deleted file looks the same. Chunks beyond the shape are never read: they are
    there when metadata of an older state were put back.

    Parameters
    ----------
    n_missing : int
        Objects that are not stored.
    first_missing : tuple of int or None
        Coordinates of the first of them in the grid.
    beyond : tuple of str
        Keys of stored chunks beyond the shape, sorted.
    left_out : tuple of (str, int)
        Key of each shard that leaves out chunks, and how many.
    """

    n_missing: int = 0
    first_missing: tuple[int, ...] | None = None
    beyond: tuple[str, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()


def check_complete(label: str, array: zarr.Array[Any], refuse: bool) -> None:
    """Refuse an array whose store does not hold exactly its chunks, or report it as warnings in the log.

    Parameters
    ----------
    label : str
        What the array is called in messages.
    array : zarr.Array
        The array, opened for reading.
    refuse : bool
        Whether such an array is refused; otherwise missing chunks are filled, and there are only warnings.

    Raises
    ------
    ValueError
        Naming the first missing chunk and its rows, or the first chunk beyond the shape, and the way out.
    """
    completeness = completeness_of(array)
    problems = [_missing(label, array, completeness), _beyond(label, array, completeness)]
    for problem, way_out in filter(None, problems):
        if refuse:
            raise ValueError(f"{problem}. {way_out}")
        logger.warning("%s", problem)


def _missing(label: str, array: zarr.Array[Any], completeness: Completeness) -> tuple[str, str] | None:
    """What is not stored, and the way out."""
    way_out = "Restore them, or pass missing_chunks='fill' if the writer left out chunks of that value"
    if completeness.first_missing is not None:
        chunk_rows = (array.shards or array.chunks)[0]
        start = completeness.first_missing[0] * chunk_rows
        return (
            f"{label}: {completeness.n_missing} chunks are not stored, the first one is {completeness.first_missing} "
            f"(rows {start}:{min(start + chunk_rows, array.shape[0])}); Zarr reads them as {array.fill_value!r}",
            way_out,
        )
    if completeness.left_out:
        key, n = completeness.left_out[0]
        return (
            f"{label}: {sum(n for _, n in completeness.left_out)} chunks inside of shards are not stored, the first "
            f"{n} in chunk {key}; Zarr reads them as {array.fill_value!r}",
            way_out,
        )
    return None


def _beyond(label: str, array: zarr.Array[Any], completeness: Completeness) -> tuple[str, str] | None:
    """What is stored and would never be read, and the way out."""
    if not completeness.beyond:
        return None
    return (
        f"{label}: the store holds {len(completeness.beyond)} chunks beyond its shape {array.shape}, the first one is "
        f"{completeness.beyond[0]}: rows may be missing from its metadata",
        "Restore the metadata, or remove these chunks; missing_chunks='fill' passes over them",
    )


def completeness_of(array: zarr.Array[Any]) -> Completeness:
    """Compare an array with what its store lists.

    Parameters
    ----------
    array : zarr.Array
        The array, opened for reading.

    Returns
    -------
    Completeness
        Complete if the store is not a folder, a zip archive or an object store: a web server lists what it likes.

    Raises
    ------
    OSError
        If the store cannot be listed.
    """
    stamps = stamps_of(array)
    if stamps is None:
        return Completeness()
    grid = ChunkGrid(array)
    keys = {coords: key for key in stamps if (coords := grid.coords(key)) is not None}
    inside = {coords for coords in keys if grid.contains(coords)}
    n_missing = grid.n_objects - len(inside)
    first = None
    if n_missing:  # found after at most as many steps as there are stored objects, however large the grid is
        every = (_nth_coords(n, grid.lengths) for n in itertools.count())
        first = next(coords for coords in every if coords not in inside)
    beyond = tuple(sorted(keys[coords] for coords in keys.keys() - inside))
    return Completeness(n_missing, first, beyond, _left_out(array, {coords: keys[coords] for coords in inside}))


def _nth_coords(n: int, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The n-th coordinates of a grid in C order, computed without listing the grid."""
    coords: list[int] = []
    for length in reversed(lengths):
        n, at = divmod(n, length)
        coords.insert(0, at)
    return tuple(coords)


def _left_out(array: zarr.Array[Any], keys: dict[tuple[int, ...], str]) -> tuple[tuple[str, int], ...]:
    """Shards in a folder that leave out chunks; in other stores this shows when they are read."""
    layout = layout_of(array)
    if layout is None or not isinstance(array.store, LocalStore):
        return ()
    root = os.path.join(str(array.store.root), array.path)
    counts = [(key, _count_left_out(layout, os.path.join(root, key), key, coords)) for coords, key in keys.items()]
    return tuple((key, count) for key, count in sorted(counts) if count)


def _count_left_out(layout: ShardLayout, path: str, key: str, coords: tuple[int, ...]) -> int:
    """0 for a damaged shard as well, which is named when it is read."""
    if irregular(path) is not None:
        return 0
    try:
        with open(path, "rb") as file:
            n_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, layout.index_offset(n_bytes)))
            index = layout.parse(key, file.read(layout.index_bytes), n_bytes)
            return len(layout.left_out(index, coords))
    except OSError:
        return 0
