"""Decodes one part of the sources (an archive, a range of a folder) to files of rows: one task, which may be repeated.

Files are written under other names and renamed when they are whole, the part's record last: a record that is there
says that the part is done. Imports `image_sources`, `image_decoding`, `splits`, `shards`, `tasks`, NumPy.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from data_prep.image_decoding import Pixels, Shaping, decode, load_decoders
from data_prep.image_entries import Entry
from data_prep.image_sources import Source
from data_prep.shards import RawTable
from data_prep.splits import HashSplit
from data_prep.tasks import in_order

BATCH_ENTRIES = 256
BATCH_BYTES = 2**20
BATCHES_PER_WORKER = 4
LISTED = 100_000
"""Skipped images that are listed by name, in a part and in a store; all are counted."""
_LONGEST_TEXT = 500


class Skipped(NamedTuple):
    """An image that is not in the store, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Treatment:
    """What all parts have in common.

    Attributes
    ----------
    folder : Path
        Where parts are written.
    shape : (int, int, int)
        Height, width and channels of every row.
    shaping : Shaping
        How images become rows.
    split : HashSplit, optional
        Draws the side of each image; without it the side is that of the part.
    classes : tuple of str
        Folders inside of the sources whose places in this tuple are labels; empty when there are none.
    ignored : tuple of str
        Endings of names of what is no image, such as descriptions beside images; in lower case.
    """

    folder: Path
    shape: tuple[int, ...]
    shaping: Shaping
    split: HashSplit | None = None
    classes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One task.

    Attributes
    ----------
    number : int
        Place in the order of rows.
    source : Source
        Its entries.
    side : str
        Name of the array that its rows belong to.
    treatment : Treatment
        Shared by all parts.
    """

    number: int
    source: Source
    side: str
    treatment: Treatment

    def file(self, name: str) -> Path:
        """Return the place of one of the part's files."""
        return self.treatment.folder / f"{self.number:07d}.{name}"


@dataclass
class Record:
    """What became of a part: number of rows per side, and of images that were skipped."""

    rows: dict[str, int] = field(default_factory=dict)
    skipped: int = 0


def read_record(part: Part) -> Record | None:
    """Return the record of a part that is done and whose files are whole, else None."""
    if not part.file("json").is_file():
        return None
    record = Record(**json.loads(part.file("json").read_text()))
    tables = [table for side in record.rows for table in (rows_of(part, record, side), labels_of(part, record, side))]
    whole = all(table.path.is_file() and table.path.stat().st_size == table.n_bytes for table in tables if table)
    return record if whole else None


def rows_of(part: Part, record: Record, side: str) -> RawTable:
    """Return the rows of a part that is done, shape (rows, height, width, channels) uint8."""
    return RawTable(part.file(f"{side}.rows"), (record.rows.get(side, 0), *part.treatment.shape), np.dtype(np.uint8))


def labels_of(part: Part, record: Record, side: str) -> RawTable | None:
    """Return the labels of a part that is done, shape (rows,) uint8; None where there are none."""
    if not part.treatment.classes:
        return None
    return RawTable(part.file(f"{side}.labels"), (record.rows.get(side, 0),), np.dtype(np.uint8))


def read_skipped(part: Part) -> Iterator[Skipped]:
    """Yield what a part that is done has listed as skipped."""
    if part.file("skipped").is_file():
        with part.file("skipped").open(encoding="ascii") as lines:
            for line in lines:
                yield Skipped(*json.loads(line))


def write_part(part: Part, pool: Executor | None = None, n_workers: int = 1) -> tuple[int, Record]:
    """Decode the entries of a part and write its files.

    Parameters
    ----------
    part : Part
        What to decode.
    pool : Executor, optional
        Processes (or threads) that decode; without it the calling thread does.
    n_workers : int
        Of the pool.

    Returns
    -------
    int, Record
        The number of the part, and what became of it.

    Raises
    ------
    ValueError
        When the archive is damaged.
    """
    load_decoders()
    decode_batch = partial(_decode_batch, part.treatment, part.side)
    batches = _batches(e for e in part.source.entries() if not e.key.lower().endswith(part.treatment.ignored))
    in_flight = BATCHES_PER_WORKER * n_workers
    with _Files(part) as files:
        for batch in in_order(pool, decode_batch, batches, in_flight) if pool else map(decode_batch, batches):
            for side in batch.rows:
                files.add(side, batch.rows[side], batch.labels[side])
            for skipped in batch.skipped:
                files.skip(skipped)
        return part.number, files.publish()


class _Files:
    """The files of a part while they are written; without `publish` they are removed again."""

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

    def add(self, side: str, rows: Pixels, labels: bytes) -> None:
        self._record.rows[side] = self._record.rows.get(side, 0) + len(rows)
        self._file(f"{side}.rows").write(rows.data)
        if self._part.treatment.classes:
            self._file(f"{side}.labels").write(labels)

    def skip(self, skipped: Skipped) -> None:
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


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Lists of entries: many small images, as a task of the pool costs as much as decoding one, or few large ones."""
    batch: list[Entry] = []
    n_bytes = 0
    for entry in entries:
        batch.append(entry)
        n_bytes += len(entry.content) if isinstance(entry.content, bytes) else BATCH_BYTES // BATCH_ENTRIES
        if len(batch) >= BATCH_ENTRIES or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


class _Batch(NamedTuple):
    """What some entries became: rows (n, height, width, channels) and labels per side, and what was skipped.

    Rows are one array, as processes send one much faster than many.
    """

    rows: dict[str, Pixels]
    labels: dict[str, bytes]
    skipped: list[Skipped]


def _decode_batch(treatment: Treatment, side: str, entries: list[Entry]) -> _Batch:
    """Decode entries; rows that do not fit are skipped, so that none is kept."""
    rows: dict[str, list[Pixels]] = {}
    labels: dict[str, bytearray] = {}
    skipped = []
    for entry in entries:
        key = entry.key.removeprefix("./")  # as archives of `tar c .` call their members
        outcome = decode(entry, treatment.shaping)
        reason = outcome if isinstance(outcome, str) else _misfit(treatment, key, outcome)
        if isinstance(outcome, str) or reason:
            skipped.append(Skipped(entry.name, reason))
            continue
        own = side if treatment.split is None else treatment.split.side(key)
        rows.setdefault(own, []).append(outcome)
        label = bytes([treatment.classes.index(_folder_of(key))]) if treatment.classes else b""
        labels.setdefault(own, bytearray()).extend(label)
    stacked = {own: np.stack(found) for own, found in rows.items()}
    return _Batch(stacked, {own: bytes(found) for own, found in labels.items()}, skipped)


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
