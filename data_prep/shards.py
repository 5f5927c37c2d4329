"""Writes tables of rows to sharded Zarr arrays, one task per shard, so that an interrupted call goes on.

Owns the layout of what this package writes. A store is one array, or a group of arrays. Imports
`builds`, `raw_shards`, `source_files`, `tasks`, NumPy and Zarr.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import zarr

from data_prep.builds import LOCK, RECORD
from data_prep.raw_shards import Extent, write_raw_shard
from data_prep.source_files import place_named
from data_prep.tasks import each

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 2**20
CHUNKS_PER_SHARD = 32
_MARKER = "zarr.json"
_MOST_COMPRESSED = 1000

_opening = threading.Lock()

Block = npt.NDArray[Any]


class Table(Protocol):
    """Rows that can be read in ranges; it travels to workers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...)."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        ...

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start:stop``."""
        ...


@dataclass(frozen=True)
class RawTable:
    """Rows in a file, in C order after `offset` bytes."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0

    @property
    def n_bytes(self) -> int:
        """Of all rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def extent(self, start: int, stop: int) -> Extent:
        """Bytes of rows ``start:stop``."""
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        return Extent(self.path, self.offset + start * row_bytes, (stop - start) * row_bytes)

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start:stop``."""
        place = self.extent(start, stop)
        flat: Block = np.fromfile(self.path, self.dtype, place.n_bytes // self.dtype.itemsize, offset=place.start)
        return flat.reshape(stop - start, *self.shape[1:])


@dataclass(frozen=True)
class Outline:
    """An array to be written: the rows of all tables one after the other.

    Attributes
    ----------
    tables : sequence of Table
        Of one row shape; their dtypes are joined. At least one, which may be empty.
    dimension_names : tuple of str
        One per axis.
    rows_per_chunk : int, optional
        By default about 2 MiB of rows.
    compress : bool
        By Zstandard.
    """

    tables: Sequence[Table]
    dimension_names: tuple[str, ...]
    rows_per_chunk: int | None = None
    compress: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...) of the array."""
        return (sum(table.shape[0] for table in self.tables), *self.tables[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That holds the values of all tables, in native byte order."""
        return np.result_type(*{table.dtype for table in self.tables}).newbyteorder("=")

    @property
    def n_bytes(self) -> int:
        """Of all rows, before they are compressed."""
        return math.prod(self.shape) * self.dtype.itemsize


class Shard(NamedTuple):
    """One task: rows ``start:stop`` of the array at `path`, from ranges of tables."""

    path: str
    start: int
    stop: int
    pieces: tuple[tuple[Table, int, int], ...]
    file: Path
    """Where it lies when it is written."""


def write_store(
    place: Path,
    outlines: Mapping[str, Outline],
    attributes: Mapping[str, Any],
    *,
    client: Any = None,
    workers: int | None = None,
) -> None:
    """Write what is still missing of a store.

    Parameters
    ----------
    place : path
        The store in work: nothing, or that of an earlier call with the same arguments.
    outlines : mapping of name to Outline
        Arrays of a group; the name "" alone makes the store itself the array.
    attributes : mapping
        Of the store, JSON values. They say what it is made of: another call's store has others.
    client, workers
        As in `tasks.each`.

    Raises
    ------
    ValueError
        When the store at `place` was begun with other attributes, or cannot fit on its disk.
    """
    _require_room(place, outlines)
    _begin(place, outlines, dict(attributes))
    shards = [shard for name, outline in outlines.items() for shard in _shards(place / name, outline)]
    # A shard is written to a file of another name first, so that one that is there is whole.
    left = [shard for shard in shards if not shard.file.is_file()]
    if len(left) < len(shards):
        logger.info("%d of %d shards are written already", len(shards) - len(left), len(shards))
    for done, _ in enumerate(each(write_shard, left, client, workers), len(shards) - len(left) + 1):
        logger.info("%d of %d shards", done, len(shards))


def write_shard(shard: Shard) -> None:
    """Write one shard whole."""
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
    """Whether the bytes of a table are those of an array of this dtype; Zarr stores little-endian values."""
    return isinstance(table, RawTable) and table.dtype == dtype and (dtype.itemsize == 1 or sys.byteorder == "little")


def listed_sources(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the sources as paths; a single one needs no list.

    Raises
    ------
    ValueError
        When there are none.
    """
    found = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not found:
        raise ValueError("sources: found none, expected at least one path")
    return [Path(source) for source in found]


def require_place(target: Path) -> None:
    """Refuse a target that exists, or whose folder does not."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of target {target} does not exist")
    if os.path.lexists(target):
        raise FileExistsError(f"target {target} exists; remove it first")


def require_apart(target: Path, sources: Sequence[Path]) -> None:
    """Refuse a target that lies in a source or has one in it.

    Raises
    ------
    ValueError
        Naming both.
    """
    place = target.resolve()
    for source in sources:
        if place.is_relative_to(source.resolve()) or source.resolve().is_relative_to(place):
            raise ValueError(f"target {target} and source {source} lie inside one another")


def _require_room(place: Path, outlines: Mapping[str, Outline]) -> None:
    """Refuse numbers of rows that no disk of this size holds, before a shard is planned."""
    n_bytes = sum(o.n_bytes // (_MOST_COMPRESSED if o.compress else 1) for o in outlines.values())
    folder = next(path for path in (place, *place.parents) if path.is_dir())
    room = shutil.disk_usage(folder).total
    if 0 < room < n_bytes:  # some network file systems state nothing
        shapes = ", ".join(str(outline.shape) for outline in outlines.values())
        raise ValueError(f"{place}: rows of shape {shapes} are {n_bytes:,} bytes, more than the {room:,} of its disk")


def _begin(place: Path, outlines: Mapping[str, Outline], attributes: dict[str, Any]) -> None:
    if (place / _MARKER).is_file():
        if dict(zarr.open(place, mode="r").attrs) != attributes:
            raise ValueError(f"{place} was begun from other sources or options; remove it to begin anew")
    else:
        _clear(place)  # not even the description of the store was written
        if "" not in outlines:
            zarr.create_group(place, attributes=attributes)
    for name, outline in outlines.items():
        if not (place / name / _MARKER).is_file():
            _create(place / name, outline, {} if name else attributes)


def _clear(place: Path) -> None:
    """Remove what a call has left that was killed as it began; what it was begun from stays."""
    for path in place.iterdir() if place.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (RECORD, LOCK):
            path.unlink()


def _create(place: Path, outline: Outline, attributes: dict[str, Any]) -> None:
    n_rows, *features = outline.shape
    row_bytes = math.prod(features) * outline.dtype.itemsize
    rows_per_chunk = outline.rows_per_chunk or CHUNK_BYTES // row_bytes
    inner = max(1, min(rows_per_chunk, n_rows))  # chunks are stored whole, also where the array ends before
    outer = inner * max(1, min(CHUNKS_PER_SHARD, -(-n_rows // inner)))
    zarr.create_array(
        place,
        shape=outline.shape,
        dtype=outline.dtype,
        chunks=(inner, *features),
        shards=(outer, *features),
        compressors="auto" if outline.compress else None,  # measured values hardly shrink, and every pass would pay
        fill_value=0,
        dimension_names=outline.dimension_names,
        attributes=attributes,
        config={"write_empty_chunks": True},  # a chunk that is missing means lost data
    )


def _shards(place: Path, outline: Outline) -> Iterator[Shard]:
    """All shards of an array."""
    array = zarr.open_array(place, mode="r")
    rows = array.shards[0] if array.shards else array.chunks[0]
    edges = list(itertools.accumulate((table.shape[0] for table in outline.tables), initial=0))
    for start in range(0, array.shape[0], rows):
        stop = min(start + rows, array.shape[0])
        key = array.metadata.encode_chunk_key((start // rows, *(0,) * (array.ndim - 1)))
        yield Shard(str(place), start, stop, tuple(_pieces(outline.tables, edges, start, stop)), place / key)


def _pieces(tables: Sequence[Table], edges: list[int], start: int, stop: int) -> Iterator[tuple[Table, int, int]]:
    for k in range(bisect.bisect_right(edges, start) - 1, bisect.bisect_left(edges, stop)):
        low, high = max(start - edges[k], 0), min(stop - edges[k], tables[k].shape[0])
        if low < high:
            yield tables[k], low, high
