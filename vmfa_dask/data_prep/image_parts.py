"""Decodes one part of the sources (an archive, a range of a folder) to files of rows: one task, which may be repeated.

Files are written under temporary names and renamed when they are complete, the part's record last. Imports
`image_records`, `image_entries`, `image_decoding`, `tasks` and NumPy.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from typing import IO, NamedTuple

import numpy as np

from vmfa_dask.data_prep.image_decoding import Frame, Pixels, decode, load_decoders
from vmfa_dask.data_prep.image_entries import Entry
from vmfa_dask.data_prep.image_records import Part, Record, Skipped, Treatment
from vmfa_dask.data_prep.source_files import place_named
from vmfa_dask.data_prep.tasks import in_order

BATCH_ENTRIES = 256
BATCH_BYTES = 2**20
BATCH_ROW_BYTES = 64 * 2**20
"""Size of the decoded rows of a batch."""
BATCHES_PER_WORKER = 4
LISTED = 100_000
"""Number of skipped images that a part and a store list by name; all are counted."""
_LONGEST_TEXT = 500


def write_part(part: Part, pool: Executor | None = None, n_workers: int = 1) -> tuple[int, Record]:
    """Decode the entries of a part and write its files.

    Parameters
    ----------
    part : Part
        What to decode.
    pool : Executor, optional
        Processes or threads that decode; by default the calling thread does.
    n_workers : int
        Number of workers of the pool.

    Returns
    -------
    number : int
        The number of the part.
    record : Record
        How many rows it yielded, and how many images were skipped.

    Raises
    ------
    ValueError
        If the archive is damaged.
    """
    load_decoders()
    with place_named(part.treatment.folder), _Files(part) as files:
        for batch in _decoded_part(part, pool, n_workers):
            files.add(batch)
        return part.number, files.publish()


class _Files:
    """The files of a part while they are written; they are removed unless published."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._record = Record()
        self._open: dict[str, IO[bytes]] = {}
        self._suffix = f"{uuid.uuid4().hex}.tmp"
        self._stack = ExitStack()

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for name in self._open:
            self._part.file(f"{name}.{self._suffix}").unlink(missing_ok=True)

    def add(self, batch: _Batch) -> None:
        for side, rows in batch.rows.items():
            self._record.rows[side] = self._record.rows.get(side, 0) + len(rows)
            self._file(f"{side}.rows").write(rows.data)
            if self._part.treatment.classes:
                self._file(f"{side}.labels").write(batch.labels[side])
        for skipped in batch.skipped:
            self._skip(skipped)
        self._record.unused_files += len(batch.unused)
        self._record.unused_frames += sum(batch.unused)

    def _skip(self, skipped: Skipped) -> None:
        self._record.skipped += 1
        if self._record.skipped <= LISTED:
            line = json.dumps([text[:_LONGEST_TEXT] for text in skipped])
            self._file("skipped").write(line.encode("ascii") + b"\n")

    def publish(self) -> Record:
        self._file("json").write(json.dumps(vars(self._record)).encode())
        self._stack.close()
        for name in list(self._open):  # the record was opened last, and is renamed last
            os.replace(self._part.file(f"{name}.{self._suffix}"), self._part.file(name))
            del self._open[name]
        return self._record

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._open:
            path = self._part.file(f"{name}.{self._suffix}")
            self._open[name] = self._stack.enter_context(path.open("wb"))
        return self._open[name]


class _Batch(NamedTuple):
    """Decoded entries: rows (n, height, width, channels) and labels per side, and what was skipped.

    Rows are one array, as processes send one much faster than many. `unused` counts the frames of each file that were
    not asked for. `end` is (entry, frame) at which a full batch stopped; None if all entries are decoded.
    """

    rows: dict[str, Pixels]
    labels: dict[str, bytes]
    skipped: list[Skipped]
    unused: list[int]
    end: tuple[int, int] | None


def _decoded_part(part: Part, pool: Executor | None, n_workers: int) -> Iterator[_Batch]:
    """Batches in the order of the entries; what exceeds the batch of a pool's task is decoded here."""
    treatment = part.treatment
    entries = (e for e in part.source.entries() if not e.key.lower().endswith(treatment.ignored))
    most = max(1, min(BATCH_ENTRIES, BATCH_ROW_BYTES // max(1, math.prod(treatment.shape))))
    groups = _grouped(entries, most)
    if pool is None:
        for group in groups:
            yield from _decoded(treatment, part.side, group)
        return
    submitted: deque[list[Entry]] = deque()
    noted = (submitted.append(group) or group for group in groups)  # type: ignore[func-returns-value]
    decode_batch = partial(_first_batch, treatment, part.side)
    for batch in in_order(pool, decode_batch, noted, BATCHES_PER_WORKER * n_workers):
        group = submitted.popleft()
        yield batch
        if batch.end is not None:
            entry, frame = batch.end
            yield from _decoded(treatment, part.side, group[entry:], frame)


def _grouped(entries: Iterable[Entry], most: int) -> Iterator[list[Entry]]:
    """Many small images or few large ones at a time: sending a task to the pool costs as much as decoding one."""
    batch: list[Entry] = []
    n_bytes = 0
    for entry in entries:
        batch.append(entry)
        n_bytes += len(entry.content) if isinstance(entry.content, bytes) else BATCH_BYTES // BATCH_ENTRIES
        if len(batch) >= most or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _first_batch(treatment: Treatment, side: str, entries: list[Entry]) -> _Batch:
    return next(_decoded(treatment, side, entries))


def _decoded(treatment: Treatment, side: str, entries: list[Entry], n_done: int = 0) -> Iterator[_Batch]:
    """Decode entries, the first one without its `n_done` first frames, to batches of bounded size."""
    room = max(1, BATCH_ROW_BYTES // max(1, math.prod(treatment.shape)))
    gathered = _Gathered(treatment, side)
    for index, entry in enumerate(entries):
        start = n_done if index == 0 else 0
        for number, frame in enumerate(itertools.islice(decode(entry, treatment.shaping), start, None), start):
            if gathered.n_rows >= room:
                yield gathered.batch((index, number))
                gathered = _Gathered(treatment, side)
            gathered.add(entry, frame)
    yield gathered.batch(None)


class _Gathered:
    """A growing batch; images of another shape or class are skipped."""

    def __init__(self, treatment: Treatment, side: str) -> None:
        self._treatment, self._side = treatment, side
        self._rows: dict[str, list[Pixels]] = {}
        self._labels: dict[str, bytearray] = {}
        self._skipped: list[Skipped] = []
        self._unused: list[int] = []
        self.n_rows = 0

    def add(self, entry: Entry, frame: Frame) -> None:
        treatment = self._treatment
        key = entry.key.removeprefix("./")  # as archives of `tar c .` call their members
        reason = frame.reason if frame.pixels is None else _misfit(treatment, key, frame.pixels)
        if frame.pixels is None or reason:
            name = f"{entry.name}, frame {frame.number}" if frame.number else entry.name
            self._skipped.append(Skipped(name, reason))
            return
        side = self._side if treatment.split is None else treatment.split.side(key)  # of all frames of the file
        self._rows.setdefault(side, []).append(frame.pixels)
        label = bytes([treatment.classes.index(_folder_of(key))]) if treatment.classes else b""
        self._labels.setdefault(side, bytearray()).extend(label)
        self._unused += [frame.unused] if frame.unused else []
        self.n_rows += 1

    def batch(self, end: tuple[int, int] | None) -> _Batch:
        stacked = {side: np.stack(rows) for side, rows in self._rows.items()}
        labels = {side: bytes(numbers) for side, numbers in self._labels.items()}
        return _Batch(stacked, labels, self._skipped, self._unused, end)


def _misfit(treatment: Treatment, key: str, pixels: Pixels) -> str:
    if pixels.shape != treatment.shape:
        return f"{_size_text(pixels.shape)}, expected {_size_text(treatment.shape)}"
    if treatment.classes and _folder_of(key) not in treatment.classes:
        return f"in none of the folders {', '.join(treatment.classes)}"
    return ""


def _folder_of(key: str) -> str:
    return key.rpartition("/")[0].rpartition("/")[2]


def _size_text(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]} pixels"
