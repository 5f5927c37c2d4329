"""Rows that are left out of training, drawn by a hash of their numbers: neither workers nor chunks affect the draw.

The rows are cut into as many stretches as rows are held out, about equally long, and each stretch gives one row. So a
range of rows tells by itself which of them are held out, however many there are. May import: addresses,
kernels, em, run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vmfa_dask.addresses import Address
from vmfa_dask.em.rows import Rows, read_only
from vmfa_dask.kernels import random
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.values import Int64

# What is held out waits in memory, or in the storage of the run, and this much of it measures a model well enough.
MOST_BYTES = 2**28
# Samples of pilots are drawn from the same stream, under another number.
_DRAW = 1


@dataclass(frozen=True)
class HeldOutRows:
    """Which rows are held out.

    Parameters
    ----------
    n_rows : int
        Rows of the source.
    n_held : int
        Rows that are drawn; at most half of all where the others are trained on.
    seed : int
        Of which the draws are a hash.
    """

    n_rows: int
    n_held: int
    seed: int

    @classmethod
    def share_of(cls, rows: RowSource, share: float, seed: int) -> HeldOutRows:
        """Hold out a share of the rows of a source, and no more than `MOST_BYTES`.

        Parameters
        ----------
        rows : RowSource
            The source.
        share : float
            Above 0, at most 0.5.
        seed : int
            Of the draws.

        Returns
        -------
        HeldOutRows

        Raises
        ------
        ValueError
            If the share comes to less than a row.
        """
        n_held = min(int(share * rows.n_rows), max(1, MOST_BYTES // (n_features_of(rows) * rows.dtype.itemsize)))
        if n_held < 1:
            raise ValueError(
                f"validation={share!r}: less than one of {rows.n_rows} rows; expected a share of a row at least"
            )
        return cls(rows.n_rows, n_held, seed)

    @property
    def n_kept(self) -> int:
        """Rows that are left for training."""
        return self.n_rows - self.n_held

    def within(self, start: int, stop: int) -> Int64:
        """Held-out rows of a range of the source.

        Parameters
        ----------
        start, stop : int
            The range.

        Returns
        -------
        (n,) int64 array
            Their numbers, ascending.
        """
        first, last = self._stretch_of(start), self._stretch_of(max(start, stop - 1))
        numbers = self._drawn(first, last + 1)
        return numbers[(numbers >= start) & (numbers < stop)]

    def source_row(self, kept: int) -> int:
        """Number in the source of a row that is left for training.

        Parameters
        ----------
        kept : int
            Its number among these rows, or `n_kept`, which gives `n_rows`.

        Returns
        -------
        int
        """
        if kept >= self.n_kept:
            return self.n_rows
        low, high = 0, self.n_held - 1  # the stretch that holds the row: the last one with no more rows before it
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._begin(middle) - middle <= kept else (low, middle - 1)
        row = kept + low
        return row + int(row >= int(self._drawn(low, low + 1)[0]))

    def _begin(self, stretch: int) -> int:
        return self.n_rows * stretch // self.n_held

    def _stretch_of(self, row: int) -> int:
        """The stretch that holds a row of the source: the last one that begins no later."""
        return ((row + 1) * self.n_held - 1) // self.n_rows

    def _drawn(self, first: int, last: int) -> Int64:
        """The held-out row of each of some stretches."""
        edges = self.n_rows * np.arange(first, last + 1) // self.n_held
        draws = np.empty((last - first, 1))
        random.uniforms(self.seed, random.SAMPLE, _DRAW, first, draws)
        return edges[:-1] + (draws[:, 0] * np.diff(edges)).astype(np.int64)


@dataclass(frozen=True)
class ValidationRows(Address):
    """Address of a part of the rows that are evaluated, as they are stored.

    Parameters
    ----------
    index : int
        Number of the part.
    """

    kind = "validation"
    version = 0
    index: int

    @property
    def part(self) -> str:
        """Name of the part."""
        return f"part-{self.index}"

    def number(self, n_blocks: int) -> int:
        """Number of the part; see `Address.number`."""
        return self.index


class TrainingRows:
    """The rows of a source without those that are held out, numbered anew; see `RowSource`.

    Parameters
    ----------
    source : RowSource
        All rows.
    held_out : HeldOutRows
        Which ones are left out.
    """

    def __init__(self, source: RowSource, held_out: HeldOutRows) -> None:
        self.source, self.held_out = source, held_out
        self.n_rows, self.feature_shape, self.dtype = held_out.n_kept, source.feature_shape, source.dtype
        # Groups begin near chunks, not at them: a chunk in which two groups meet is decoded for both.
        self.chunk_rows, self.decoded_rows, self.reads_parts = (
            source.chunk_rows, source.decoded_rows, source.reads_parts,
        )  # fmt: skip

    @property
    def bytes_read(self) -> int:
        """As the source says."""
        return self.source.bytes_read

    def forget_blocks(self) -> None:
        """As the source does; see `RowSource.forget_blocks`."""
        self.source.forget_blocks()

    @property
    def remedy(self) -> str:
        """As the source says."""
        return self.source.remedy

    def describe(self, row: int) -> str:
        """Where the row lies in the source; see `RowSource.describe`."""
        return self.source.describe(self.held_out.source_row(row))

    def read(self, start: int, stop: int) -> Rows:
        """A range of the rows that are left; see `RowSource.read`."""
        first, last = self.held_out.source_row(start), self.held_out.source_row(stop)
        block = self.source.read(first, last)
        left = np.ones(len(block), bool)
        left[self.held_out.within(first, last) - first] = False
        return block if left.all() else read_only(block[left])


def training_rows(rows: RowSource, held_out: HeldOutRows | None) -> RowSource:
    """The rows on which a run trains.

    Parameters
    ----------
    rows : RowSource
        All rows.
    held_out : HeldOutRows or None
        Those that are left out.

    Returns
    -------
    RowSource
        The same object where none is left out.
    """
    return rows if held_out is None else TrainingRows(rows, held_out)


def all_rows(rows: RowSource) -> Any:
    """The source of the rows on which a run trains, held-out rows included.

    Parameters
    ----------
    rows : RowSource
        As `training_rows` returns them.

    Returns
    -------
    RowSource
    """
    return rows.source if isinstance(rows, TrainingRows) else rows
