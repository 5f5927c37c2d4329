"""Parts of the sources, and the records of those that are decoded.

A record that is there says that the part is done: it is renamed after the part's other files. Imports `image_sources`,
`image_decoding`, `splits`, `shards` and NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data_prep.image_decoding import Shaping
from data_prep.image_sources import Source
from data_prep.shards import RawTable
from data_prep.splits import HashSplit


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
    """What became of a part.

    Attributes
    ----------
    rows : dict of str to int
        Number of rows per side.
    skipped : int
        Images, and frames of images, that were skipped.
    unused_files, unused_frames : int
        Files of several frames of which only the first one was asked for, and the others.
    """

    rows: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    unused_files: int = 0
    unused_frames: int = 0


def read_record(part: Part) -> Record | None:
    """Return the record of a part that is done and whose files are whole, else None."""
    if not part.file("json").is_file():
        return None
    try:
        record = Record(**json.loads(part.file("json").read_bytes()))
    except (ValueError, TypeError):  # damaged: the part is decoded again
        return None
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
