"""Whether the rows of a run are still those that it was begun with.

The values of the rows count, not their location: a copy of a store, or one whose files got new times, is the same data.
So checksums of the rows are kept where reading all of them once more costs little, and sizes and times of the stored
objects say when that can be left out. Larger data is recognised by its objects alone.
May import: em, run, store, numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from vmfa_dask.em.rows import Rows
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.row_source import RowSource, n_features_of, read_ahead
from vmfa_dask.store.contents import stamps_of
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.run_files import CONTENTS
from vmfa_dask.store.scratch import in_scratch

# Data up to this size is compared row by row when a run is resumed, whatever its files say: it takes a moment.
_ALWAYS_BYTES = 2**26
# Checksums of stored rows are made up to this size: about a second at the beginning of a run.
_MOST_BYTES = 2**30
# The tags of an object store identify what its objects hold, and reading the objects can take long.
_MOST_REMOTE_BYTES = 2**26
# Parts of larger data that are read whenever a run is resumed: at most so many, and of so many bytes together.
_MOST_PARTS = 64
_PARTS_BYTES = 2**26
_PARTS_REMOTE_BYTES = 2**23
# Row ranges that have a checksum each, at most: messages name changed rows as finely as this.
_MOST_RANGES = 1000
_MOST_NAMES = 3


def recognize(path: str, rows: RowSource, plan: Plan, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Refuse rows that have changed since a run was begun.

    Parameters
    ----------
    path : str
        Folder or URL of the run, for messages.
    rows : RowSource
        The rows of this call.
    plan : Plan
        Of the run.
    known : mapping or None
        What this function returned when the run was begun or last resumed; None for a new run.

    Returns
    -------
    dict
        The fingerprint to keep: "objects" (stamps of the stored objects), "checksums" (of row ranges that cover all
        rows) and "parts" (of some row ranges); each is None where it is not known or not worth its cost.

    Raises
    ------
    ValueError
        Naming what has changed.
    """
    objects, n_bytes = _objects_of(rows), _size(rows)
    if not known:
        all_rows = not _lasts(rows) or n_bytes <= (_MOST_BYTES if "://" not in rows.url else _MOST_REMOTE_BYTES)
        sums = _checksums(rows, plan, min(rows.n_rows, _MOST_RANGES)) if all_rows else None
        return {"objects": objects, "checksums": sums, "parts": _parts(rows)}
    before, sums = known.get("objects"), known.get("checksums")
    readable = sums is None or (isinstance(sums, list) and 0 < len(sums) <= rows.n_rows)
    if not readable or not isinstance(before, dict | None):
        raise ValueError(
            f"{path}/{CONTENTS}: damaged: objects or checksums are none of this run; restore the file from a copy"
        )
    changed = _changed(before, objects)
    if sums is None:
        if changed:
            raise ValueError(_of_objects(path, before, objects, changed))
        return {**known, "parts": _same_parts(path, rows, known)}
    if objects and not changed and n_bytes > _ALWAYS_BYTES:
        return {**known, "parts": _same_parts(path, rows, known)}
    now, ranges = _checksums(rows, plan, len(sums)), _ranges(rows.n_rows, len(sums))
    differing = [rows_range for rows_range, old, new in zip(ranges, sums, now, strict=True) if old != new]
    if differing:
        raise ValueError(_of_rows(path, _joined(differing), changed if before and objects else []))
    return {"objects": objects, "checksums": sums, "parts": _same_parts(path, rows, known)}


def _parts(rows: RowSource) -> list[list[Any]] | None:
    """Start, stop and checksum of row ranges spread over stored data; None for rows that do not last.

    The first and the last rows are among them. Whole chunks are decoded, and count with their size.
    """
    if not _lasts(rows):
        return None
    row_bytes = n_features_of(rows) * rows.dtype.itemsize
    most = _PARTS_BYTES if "://" not in rows.url else _PARTS_REMOTE_BYTES
    decoded = 1 if rows.reads_parts else rows.decoded_rows
    n = max(2, min(_MOST_PARTS, most // (decoded * row_bytes)))
    size = max(1, min(most // (n * row_bytes), rows.chunk_rows, rows.n_rows))
    starts = sorted({(rows.n_rows - size) * k // (n - 1) for k in range(n)})
    return [[start, start + size, _checksum(rows, start, start + size)] for start in starts]


def _checksum(rows: RowSource, start: int, stop: int) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(rows.read(start, stop)).data):08x}"


def _same_parts(path: str, rows: RowSource, known: Mapping[str, Any]) -> list[list[Any]] | None:
    """Compare the parts that are known, or make them."""
    parts: list[list[Any]] | None = known.get("parts")
    if not parts:
        return _parts(rows)
    differing = [(start, stop) for start, stop, known_sum in parts if _checksum(rows, start, stop) != known_sum]
    if differing:
        raise ValueError(_of_rows(path, _joined(differing), []))
    return parts


def _lasts(rows: RowSource) -> TypeGuard[ZarrRows]:
    """Whether the rows are in a store of the user's: not in memory, and not in one that was made for this call."""
    return isinstance(rows, ZarrRows) and ("://" in rows.url or not in_scratch(rows.url))


def _size(rows: RowSource) -> int:
    return rows.n_rows * n_features_of(rows) * rows.dtype.itemsize


def _objects_of(rows: RowSource) -> dict[str, list[Any]] | None:
    """Stamps of the objects that hold the rows; None where they do not last, or the store has no stamps."""
    if not _lasts(rows):
        return None
    stamps = stamps_of(open_array(rows.url, rows.name))
    return None if stamps is None else {key: list(stamp) for key, stamp in stamps.items()}


def _ranges(n_rows: int, n: int) -> list[tuple[int, int]]:
    """The n row ranges that have a checksum each; they do not depend on the plan."""
    return [(n_rows * k // n, n_rows * (k + 1) // n) for k in range(n)]


def _checksums(rows: RowSource, plan: Plan, n: int) -> list[str]:
    """One checksum per range, from the row blocks of a pass, so that a cache has them for the first pass."""
    ranges, sums, current = _ranges(rows.n_rows, n), [0] * n, 0
    for first, block in _blocks(rows, plan):
        stop, row = first + len(block), first
        while row < stop:
            end = min(stop, ranges[current][1])
            sums[current] = zlib.crc32(np.ascontiguousarray(block[row - first : end - first]).data, sums[current])
            current, row = current + (end == ranges[current][1]), end
    return [f"{value:08x}" for value in sums]


def _blocks(rows: RowSource, plan: Plan) -> Iterator[tuple[int, Rows]]:
    for start, stop in plan.groups:
        yield from read_ahead(rows, start, stop, plan.block_rows)


def _changed(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    """Keys of the objects that have changed, come or gone, in order."""
    before, now = before or {}, now or {}
    return sorted(key for key in {*before, *now} if before.get(key) != now.get(key))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same rows in as few ranges as possible."""
    joined = list[tuple[int, int]]()
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return joined


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _of_rows(path: str, ranges: list[tuple[int, int]], objects: list[str]) -> str:
    where = _listed([f"{start}:{stop}" for start, stop in ranges])
    chunks = f"; chunks that were written since: {_listed(objects)}" if objects else ""
    return (
        f"data: rows within {where} are not those that the run in {path} was begun with{chunks}. "
        "Use another folder as run, or restore the rows"
    )


def _of_objects(
    path: str, before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, changed: list[str]
) -> str:
    if before and now:
        what = f"sizes or times of {len(changed)} of its {len(before)} chunks have changed: {_listed(changed)}"
    else:
        what = "they came from a store whose chunks are known, and now they do not, or the other way round"
    return (
        f"data: these may be other rows than those that the run in {path} was begun with: {what}. Use another folder "
        "as run, or, if the rows are the same, restore their times (cp -a and rsync -t keep them in copies)"
    )
