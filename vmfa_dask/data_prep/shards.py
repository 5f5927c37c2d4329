"""Writes tables of rows to sharded Zarr arrays, one task per shard, so that an interrupted call can be resumed.

The layout of stores is decided here. A store is one array, or a group of arrays. Imports `builds`, `raw_shards`,
`source_files`, `tables`, `tasks`, NumPy and Zarr.
"""

from __future__ import annotations

import bisect
import itertools
import logging
import math
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from vmfa_dask.data_prep.builds import LOCK, RECORD
from vmfa_dask.data_prep.raw_shards import write_raw_shard
from vmfa_dask.data_prep.source_files import place_named
from vmfa_dask.data_prep.tables import Outline, RawTable, Table
from vmfa_dask.data_prep.tasks import each

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 2**20
CHUNKS_PER_SHARD = 32
_MARKER = "zarr.json"
_MOST_COMPRESSED = 1000

_opening = threading.Lock()


class Shard(NamedTuple):
    """One task: the rows of a shard.

    Parameters
    ----------
    path : str
        The array.
    start, stop : int
        Its rows in this shard.
    pieces : tuple of (Table, int, int)
        The tables and their ranges of rows that make up the shard.
    file : path
        The file of the shard.
    """

    path: str
    start: int
    stop: int
    pieces: tuple[tuple[Table, int, int], ...]
    file: Path


def write_store(
    store: Path,
    outlines: Mapping[str, Outline],
    attributes: Mapping[str, Any],
    *,
    client: Any = None,
    workers: int | None = None,
) -> None:
    """Write the shards of a store that are still missing.

    Parameters
    ----------
    store : path
        The unfinished store: a new path, or that of an earlier call with the same arguments.
    outlines : mapping of str to Outline
        Arrays of a group by name; the name "" alone makes the store one array.
    attributes : mapping
        JSON values for the attributes of the store. They describe its sources and options, so that the store of
        another call is recognised.
    client, workers
        As in `tasks.each`.

    Raises
    ------
    ValueError
        If the store was begun with other attributes, or does not fit on its disk.
    """
    _require_room(store, outlines)
    _begin(store, outlines, dict(attributes))
    shards = [shard for name, outline in outlines.items() for shard in _shards(store / name, outline)]
    # A file gets the name of its shard when it is complete.
    missing = [shard for shard in shards if not shard.file.is_file()]
    if len(missing) < len(shards):
        logger.info("%d of %d shards have been written already", len(shards) - len(missing), len(shards))
    for done, _ in enumerate(each(write_shard, missing, client, workers), len(shards) - len(missing) + 1):
        logger.info("%d of %d shards", done, len(shards))


def write_shard(shard: Shard) -> None:
    """Write a shard.

    Parameters
    ----------
    shard : Shard
        Its array must exist.

    Raises
    ------
    ValueError
        If a table is damaged or has changed.
    OSError
        If the disk is full, with the path of the shard.
    """
    with place_named(shard.file):
        _write_shard(shard)


def _write_shard(shard: Shard) -> None:
    with _opening, zarr.config.set({"array.write_empty_chunks": True}):  # a setting that a store does not remember
        array = zarr.open_array(shard.path, mode="r+")
    if not array.compressors and all(_is_copied(table, array.dtype) for table, _, _ in shard.pieces):
        write_raw_shard(shard.file, array, (table.extent(low, high) for table, low, high in shard.pieces))  # type: ignore[attr-defined]
        return
    rows = [table.read(low, high).astype(array.dtype, copy=False) for table, low, high in shard.pieces]
    array[shard.start : shard.stop] = rows[0] if len(rows) == 1 else np.concatenate(rows)


def _is_copied(table: Table, dtype: np.dtype[Any]) -> bool:
    """Whether a table has the bytes of an array of this dtype; Zarr stores little-endian values."""
    return isinstance(table, RawTable) and table.dtype == dtype and (dtype.itemsize == 1 or sys.byteorder == "little")


def listed_sources(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Make a list of paths of one or several sources.

    Parameters
    ----------
    sources : path or iterable of path
        As the caller gave them.

    Returns
    -------
    list of path
        At least one.

    Raises
    ------
    ValueError
        If there are none.
    """
    given = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not given:
        raise ValueError("sources: found none, expected at least one path")
    return [Path(source) for source in given]


def require_place(target: Path) -> None:
    """Refuse a target that exists, or whose folder does not.

    Parameters
    ----------
    target : path
        The new store.

    Raises
    ------
    FileExistsError
        If there is anything at the target.
    FileNotFoundError
        If its folder does not exist.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of target {target} does not exist")
    if os.path.lexists(target):
        raise FileExistsError(f"target {target} exists; remove it first")


def require_apart(target: Path, sources: Sequence[Path]) -> None:
    """Refuse a target inside a source, or around one.

    Parameters
    ----------
    target : path
        The new store.
    sources : sequence of path
        Files and folders.

    Raises
    ------
    ValueError
        Naming target and source.
    """
    resolved = target.resolve()
    for source in sources:
        if resolved.is_relative_to(source.resolve()) or source.resolve().is_relative_to(resolved):
            raise ValueError(f"target {target} and source {source} lie inside one another")


def _require_room(store: Path, outlines: Mapping[str, Outline]) -> None:
    """Refuse stores larger than their disk, before any shard is planned."""
    n_bytes = sum(o.n_bytes // (_MOST_COMPRESSED if o.compress else 1) for o in outlines.values())
    folder = next(path for path in (store, *store.parents) if path.is_dir())
    room = shutil.disk_usage(folder).total
    if 0 < room < n_bytes:  # some network file systems report 0
        shapes = ", ".join(str(outline.shape) for outline in outlines.values())
        raise ValueError(f"{store}: rows of shape {shapes} are {n_bytes:,} bytes, more than the {room:,} of its disk")


def _begin(store: Path, outlines: Mapping[str, Outline], attributes: dict[str, Any]) -> None:
    if (store / _MARKER).is_file():
        if dict(zarr.open(store, mode="r").attrs) != attributes:
            raise ValueError(f"{store} was begun from other sources or options; remove it to start over")
    else:
        _clear(store)  # not even the metadata of the store was written
        if "" not in outlines:
            zarr.create_group(store, attributes=attributes)
    for name, outline in outlines.items():
        if not (store / name / _MARKER).is_file():
            _create(store / name, outline, {} if name else attributes)


def _clear(store: Path) -> None:
    """Remove what a call left that was killed as it began, except for its record."""
    for path in store.iterdir() if store.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (RECORD, LOCK):
            path.unlink()


def _create(store: Path, outline: Outline, attributes: dict[str, Any]) -> None:
    n_rows, *features = outline.shape
    row_bytes = math.prod(features) * outline.dtype.itemsize
    rows_per_chunk = outline.rows_per_chunk or CHUNK_BYTES // row_bytes
    inner = max(1, min(rows_per_chunk, n_rows))  # the last chunk is padded to full size
    outer = inner * max(1, min(CHUNKS_PER_SHARD, -(-n_rows // inner)))
    zarr.create_array(
        store,
        shape=outline.shape,
        dtype=outline.dtype,
        chunks=(inner, *features),
        shards=(outer, *features),
        compressors="auto" if outline.compress else None,  # hardly shrinks measured values, slows every pass
        fill_value=0,
        dimension_names=outline.dimension_names,
        attributes=attributes,
        config={"write_empty_chunks": True},  # a chunk that is missing means lost data
    )


def _shards(store: Path, outline: Outline) -> Iterator[Shard]:
    """All shards of an array."""
    array = zarr.open_array(store, mode="r")
    rows = array.shards[0] if array.shards else array.chunks[0]
    edges = list(itertools.accumulate((table.shape[0] for table in outline.tables), initial=0))
    for start in range(0, array.shape[0], rows):
        stop = min(start + rows, array.shape[0])
        key = array.metadata.encode_chunk_key((start // rows, *(0,) * (array.ndim - 1)))
        yield Shard(str(store), start, stop, tuple(_pieces(outline.tables, edges, start, stop)), store / key)


def _pieces(tables: Sequence[Table], edges: list[int], start: int, stop: int) -> Iterator[tuple[Table, int, int]]:
    for k in range(bisect.bisect_right(edges, start) - 1, bisect.bisect_left(edges, stop)):
        low, high = max(start - edges[k], 0), min(stop - edges[k], tables[k].shape[0])
        if low < high:
            yield tables[k], low, high
