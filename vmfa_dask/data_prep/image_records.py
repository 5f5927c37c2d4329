"""Parts of the sources, and the records of those that are decoded.

A record that is there says that the part is done: it is renamed after the part's other files. Imports `image_sources`,
`image_decoding`, `splits`, `tables` and NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_sources import Source
from vmfa_dask.data_prep.splits import HashSplit
from vmfa_dask.data_prep.tables import RawTable


class Skipped(NamedTuple):
    """An image that is not in the store.

    Parameters
    ----------
    name : str
        Source and name of the image, and the number of its frame if it has several.
    reason : str
        Why it was skipped.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Treatment:
    """Settings shared by all parts of a store.

    Parameters
    ----------
    folder : path
        Where the files of all parts are written.
    shape : (int, int, int)
        Height, width and channels of every row.
    shaping : Shaping
        How images become rows.
    split : HashSplit, optional
        Draws the side of each image; by default each has the side of its part.
    classes : tuple of str
        Names of folders inside the sources; the index of an image's folder is its label. Empty if there are no labels.
    ignored : tuple of str
        Endings, in lower case, of names that are not images, such as descriptions beside images.
    """

    folder: Path
    shape: tuple[int, ...]
    shaping: Shaping
    split: HashSplit | None = None
    classes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One task: a range of a source.

    Parameters
    ----------
    number : int
        Position in the order of rows, from 0.
    source : Source
        Yields the entries of this part.
    side : str
        Name of the array that its rows belong to.
    treatment : Treatment
        Settings that all parts share.
    """

    number: int
    source: Source
    side: str
    treatment: Treatment

    def file(self, name: str) -> Path:
        """Name one of the part's files.

        Parameters
        ----------
        name : str
            Such as ``"train.rows"`` or ``"json"``.

        Returns
        -------
        path
            In the folder of all parts, with the number of this one.
        """
        return self.treatment.folder / f"{self.number:07d}.{name}"


@dataclass
class Record:
    """The counts of a decoded part.

    Parameters
    ----------
    rows : dict of str to int
        Number of rows per side.
    skipped : int
        Number of images, and frames of images, that were skipped.
    unused_files : int
        Number of files with several frames of which only the first one was asked for.
    unused_frames : int
        Number of the other frames of these files.
    """

    rows: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    unused_files: int = 0
    unused_frames: int = 0


def read_record(part: Part) -> Record | None:
    """Read the record of a part.

    Parameters
    ----------
    part : Part
        The part.

    Returns
    -------
    Record or None
        None unless the part is decoded and its files are complete.
    """
    if not part.file("json").is_file():
        return None
    try:
        record = Record(**json.loads(part.file("json").read_bytes()))
    except (ValueError, TypeError):  # damaged: the part is decoded again
        return None
    tables = [table for side in record.rows for table in (rows_of(part, record, side), labels_of(part, record, side))]
    complete = all(table.path.is_file() and table.path.stat().st_size == table.n_bytes for table in tables if table)
    return record if complete else None


def rows_of(part: Part, record: Record, side: str) -> RawTable:
    """Locate the rows of a decoded part.

    Parameters
    ----------
    part : Part
        The part.
    record : Record
        Its counts.
    side : str
        Name of an array.

    Returns
    -------
    RawTable
        Shape (rows, height, width, channels), uint8.
    """
    return RawTable(part.file(f"{side}.rows"), (record.rows.get(side, 0), *part.treatment.shape), np.dtype(np.uint8))


def labels_of(part: Part, record: Record, side: str) -> RawTable | None:
    """Locate the labels of a decoded part; arguments as for `rows_of`.

    Returns
    -------
    RawTable or None
        Shape (rows,), uint8; None if there are no classes.
    """
    if not part.treatment.classes:
        return None
    return RawTable(part.file(f"{side}.labels"), (record.rows.get(side, 0),), np.dtype(np.uint8))


def read_skipped(part: Part) -> Iterator[Skipped]:
    """Read what a decoded part has listed as skipped.

    Parameters
    ----------
    part : Part
        The part.

    Yields
    ------
    Skipped
        In the order of the source.
    """
    if part.file("skipped").is_file():
        with part.file("skipped").open(encoding="ascii") as lines:
            for line in lines:
                yield Skipped(*json.loads(line))
