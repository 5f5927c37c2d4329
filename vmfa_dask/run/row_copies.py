"""Addresses of rows that a run has copied into the order of their cells, and of what tells their order.

May import: addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from vmfa_dask import addresses
from vmfa_dask.addresses import START, Address

SORTED, ORDERED = "sorted", "rows"


@dataclass(frozen=True)
class RowCounts(Address):
    """Rows of each cell in each row block; stored where the rows of a run have another order than those of the user."""

    kind = START
    part = "order"
    version = 0

    def number(self, n_blocks: int) -> int:
        """After what seeds leave; see `Address.number`."""
        return addresses.SeedCells().number(n_blocks) + 1


@dataclass(frozen=True)
class RowCells(Address):
    """Cells of the rows of one group of the user's order.

    Parameters
    ----------
    group : int
        Number of the group.
    """

    kind = START
    version = 0
    group: int

    @property
    def part(self) -> str:
        """Name of the group."""
        return f"cells-of-group-{self.group:05d}"

    def number(self, n_blocks: int) -> int:
        """After the counts, every other one; see `Address.number`."""
        return RowCounts().number(n_blocks) + 1 + 2 * self.group


@dataclass(frozen=True)
class RowNumbers(Address):
    """Numbers in the user's data of the rows of one group of the new order.

    Parameters
    ----------
    group : int
        Number of the group.
    """

    kind = START
    version = 0
    group: int

    @property
    def part(self) -> str:
        """Name of the group."""
        return f"numbers-of-group-{self.group:05d}"

    def number(self, n_blocks: int) -> int:
        """After the counts, every other one; see `Address.number`."""
        return RowCounts().number(n_blocks) + 2 + 2 * self.group


@dataclass(frozen=True)
class SortedRows(Address):
    """Rows of one row block in a range of cells, sorted by cell.

    Parameters
    ----------
    block, bucket : int
        Number of the row block among those of all groups, and of the range of cells.
    """

    kind = SORTED
    version = 0
    block: int
    bucket: int

    @property
    def part(self) -> str:
        """Row block and range of cells."""
        return f"rows-{self.block:05d}-cells-{self.bucket:05d}"


@dataclass(frozen=True)
class OrderedRowBlock(Address):
    """Rows of one row block of the new order.

    Parameters
    ----------
    group, block : int
        Number of the group, and of the row block in it.
    """

    kind = ORDERED
    version = 0
    group: int
    block: int

    @property
    def part(self) -> str:
        """Group and row block."""
        return f"group-{self.group:05d}-rows-{self.block:05d}"
