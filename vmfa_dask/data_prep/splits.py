"""Test splits: a seeded hash of each sample's key, which neither order nor workers affect.

Imports `tables` for its types, and NumPy.
"""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vmfa_dask.data_prep.tables import Block, Table

TRAIN, TEST = "train", "test"
BLOCK = 65_536
"""Rows that `SideTable` counts at a time."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


@dataclass(frozen=True)
class HashSplit:
    """Draws test samples by a hash of their keys.

    Parameters
    ----------
    test_share : float
        Probability that a sample is drawn for ``test``, above 0 and below 1.
    seed : int
        Seed of the hash; at least 0 and below 2**64.

    Raises
    ------
    ValueError
        If `test_share` or `seed` is out of range.
    """

    test_share: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share must be between 0 and 1, got {self.test_share}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must be an integer of at least 0 and below 2**64, got {self.seed}")

    def side(self, key: str) -> str:
        """Draw the side of a sample.

        Parameters
        ----------
        key : str
            The key of the sample.

        Returns
        -------
        str
            `TRAIN` or `TEST`.
        """
        return TEST if self._hash(key) < self.test_share * 2**64 else TRAIN

    def are_tests(self, key: str, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Draw the sides of rows of a source.

        Parameters
        ----------
        key : str
            The key of the source.
        start, stop : int
            Range of rows.

        Returns
        -------
        (stop - start,) bool array
            Which of the rows are test samples.

        Notes
        -----
        The hash of a row is splitmix64 of the hash of the source plus the number of the row.
        """
        state = np.arange(start + 1, stop + 1, dtype=np.uint64) * _GOLDEN + np.uint64(self._hash(key))
        for shift, factor in _MIX:
            state = (state ^ (state >> shift)) * factor
        state ^= state >> np.uint64(31)
        # The upper 53 bits are exact as float64.
        return (state >> np.uint64(11)).astype(np.float64) < self.test_share * 2**53

    def _hash(self, key: str) -> int:
        seed = self.seed.to_bytes(8, "little")
        digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, key=seed)
        return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True)
class SideTable:
    """The rows of a table that are on one side of a split, in their order.

    Parameters
    ----------
    table : Table
        The rows of both sides.
    key : str
        The key of the table in the hash.
    split : HashSplit
        Draws the side of each row.
    is_test : bool
        Whether this is the side of the test samples.
    edges : tuple of int
        Number of rows of this side before each `BLOCK` rows of the table, and in total.
    """

    table: Table
    key: str
    split: HashSplit
    is_test: bool
    edges: tuple[int, ...]

    @classmethod
    def of(cls, table: Table, key: str, split: HashSplit, is_test: bool) -> SideTable:
        """Make the table of a side by counting its rows.

        Parameters
        ----------
        table, key, split, is_test
            As for the class.

        Returns
        -------
        SideTable
            The rows of this side.
        """
        starts = range(0, table.shape[0], BLOCK)
        drawn = [split.are_tests(key, start, min(start + BLOCK, table.shape[0])) for start in starts]
        counts = [np.count_nonzero(tests == is_test) for tests in drawn]
        return cls(table, key, split, is_test, (0, *(int(edge) for edge in np.cumsum(counts))))

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows of this side, features...)."""
        return (self.edges[-1], *self.table.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the table."""
        return self.table.dtype

    def read(self, start: int, stop: int) -> Block:
        """Read rows ``start:stop`` of this side, as in `Table.read`; rows of the other side in between are read too."""
        first, last = (bisect.bisect_right(self.edges, row) - 1 for row in (start, stop - 1))
        offset, end = first * BLOCK, min((last + 1) * BLOCK, self.table.shape[0])
        numbers = np.flatnonzero(self.split.are_tests(self.key, offset, end) == self.is_test)
        chosen = numbers[start - self.edges[first] : stop - self.edges[first]]
        low, high = int(chosen[0]), int(chosen[-1]) + 1
        return self.table.read(offset + low, offset + high)[chosen - low]
