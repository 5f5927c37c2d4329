"""Chunks that belong to a Zarr array and are not in its store, or are there and do not belong to it.

May import: zarr, store.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.storage import LocalStore

from vmfa_dask.store.contents import stamps_of
from vmfa_dask.store.keys import ChunkGrid
from vmfa_dask.store.regular import irregular
from vmfa_dask.store.shards import ShardLayout, layout_of


@dataclass(frozen=True)
class Completeness:
    """What a store lacks of an array and what it has too much. Stored objects are shards where there are any.

    Zarr reads what is not stored as the fill value without a word: a writer may have left out chunks that hold nothing
    else, but a copy that was cut short or a file that was deleted looks the same. What is stored beyond the shape is
    not read at all, as after metadata of an older state were put back.

    Parameters
    ----------
    n_missing : stored objects that are not there
    first_missing : place of the first of them in the grid
    beyond : keys of chunks beyond the shape
    left_out : key of each shard that leaves out chunks, and how many
    """

    n_missing: int = 0
    first_missing: tuple[int, ...] | None = None
    beyond: tuple[str, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()


def completeness_of(array: zarr.Array[Any]) -> Completeness:
    """Compare an array with what its store lists; nothing is found where that is no folder, archive or object store.

    A web server lists what it likes, if anything.
    """
    stamps = stamps_of(array)
    if stamps is None:
        return Completeness()
    grid = ChunkGrid(array)
    places = {place: key for key in stamps if (place := grid.place(key)) is not None}
    inside = {place for place in places if grid.holds(place)}
    n_missing = grid.n_objects - len(inside)
    first = None
    if n_missing:  # found after as many steps as there are objects, however large the grid is
        every = (_nth_place(n, grid.lengths) for n in itertools.count())
        first = next(place for place in every if place not in inside)
    beyond = tuple(sorted(places[place] for place in places.keys() - inside))
    return Completeness(n_missing, first, beyond, _left_out(array, {place: places[place] for place in inside}))


def _nth_place(n: int, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The n-th place of a grid, the last axis first; nothing is made for each of its places."""
    place: list[int] = []
    for length in reversed(lengths):
        n, at = divmod(n, length)
        place.insert(0, at)
    return tuple(place)


def _left_out(array: zarr.Array[Any], places: dict[tuple[int, ...], str]) -> tuple[tuple[str, int], ...]:
    """Shards in files of a folder that leave out chunks; in other stores that shows when they are read."""
    layout = layout_of(array)
    if layout is None or not isinstance(array.store, LocalStore):
        return ()
    root = os.path.join(str(array.store.root), array.path)
    counts = [(key, _count_left_out(layout, os.path.join(root, key), key, place)) for place, key in places.items()]
    return tuple((key, count) for key, count in sorted(counts) if count)


def _count_left_out(layout: ShardLayout, path: str, key: str, place: tuple[int, ...]) -> int:
    """0 for a damaged shard as well, which is named when it is read."""
    if irregular(path) is not None:
        return 0
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, layout.begin(size)))
            return len(layout.absent(layout.read(key, file.read(layout.n_bytes), size), place))
    except OSError:
        return 0
