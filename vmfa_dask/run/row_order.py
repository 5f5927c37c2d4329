"""Rows in the order of their cells: where they are stored, and the source that a run reads them from.

A pass over rows that lie in the order of their cells asks for few components at a time. So a run that begins with cells
copies its rows once, by two passes of tasks (`run.tasks.row_order`): each row block is sorted by cell, and each group
of the new order gathers its slices from all of these parts. Within a cell, rows stay in their order. May import:
addresses, values, em, run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from vmfa_dask.em.rows import Rows, read_only
from vmfa_dask.run.plan import Plan, reorders_rows
from vmfa_dask.run.row_copies import OrderedRowBlock, RowCounts, RowNumbers
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Storage
from vmfa_dask.values import Int64

# Ranges of cells into which a sorted row block is divided: a group of the new order reads one or two of each.
_MOST_BUCKETS = 32


class OrderedRows:
    """Rows of a source in the order of their cells, read from where tasks have stored them; see `RowSource`.

    Parameters
    ----------
    source : RowSource
        The training rows in the user's order.
    plan : Plan
        Of the run.
    storage, copies : Storage
        Versions of the run, and where the rows are.
    """

    def __init__(self, source: RowSource, plan: Plan, storage: Storage, copies: Storage) -> None:
        self.source, self._plan, self._storage, self._copies = source, plan, storage, copies
        self._starts = [start for start, _ in plan.groups]
        self.n_rows, self.feature_shape, self.dtype = source.n_rows, source.feature_shape, source.dtype
        self.chunk_rows, self.decoded_rows, self.reads_parts, self.bytes_read = 1, 1, True, 0

    def forget_blocks(self) -> None:
        """Nothing; see `RowSource.forget_blocks`."""

    @property
    def remedy(self) -> str:
        """As the source says."""
        return self.source.remedy

    def describe(self, row: int) -> str:
        """Where the row lies in the user's data; see `RowSource.describe`."""
        group = bisect_right(self._starts, row) - 1
        numbers = self._storage.read(RowNumbers(group))["numbers"]
        return self.source.describe(int(numbers[row - self._starts[group]]))

    def read(self, start: int, stop: int) -> Rows:
        """A range of rows, as a view if it lies in one row block of the plan; see `RowSource.read`."""
        parts = []
        while start < stop:
            group = bisect_right(self._starts, start) - 1
            block, low = divmod(start - self._starts[group], self._plan.block_rows)
            rows = self._copies.read(OrderedRowBlock(group, block))["rows"][low : low + stop - start]
            parts.append(rows)
            start += len(rows)
        self.bytes_read += sum(rows.nbytes for rows in parts)
        return read_only(parts[0] if len(parts) == 1 else np.concatenate(parts))


def rows_in_order(source: RowSource, plan: Plan, storage: Storage, copies: Storage) -> RowSource:
    """The rows that passes read.

    Parameters
    ----------
    source : RowSource
        The training rows.
    plan : Plan
        Of the run.
    storage, copies : Storage
        Versions of the run, and where re-ordered rows are.

    Returns
    -------
    RowSource
        The source itself where the run keeps the user's order.
    """
    try:
        storage.read(RowCounts())
    except KeyError:
        return source
    source.forget_blocks()  # no pass reads them again
    return OrderedRows(source, plan, storage, copies)


def row_blocks(plan: Plan, group: int) -> list[tuple[int, int]]:
    """Row blocks of a group.

    Parameters
    ----------
    plan : Plan
        Of the run.
    group : int
        Number of the group.

    Returns
    -------
    list of (int, int)
        Ranges of rows.
    """
    start, stop = plan.groups[group]
    return [(low, min(low + plan.block_rows, stop)) for low in range(start, stop, plan.block_rows)]


def first_block_of(plan: Plan, group: int) -> int:
    """Number of the first row block of a group among those of all groups.

    Parameters
    ----------
    plan : Plan
        Of the run.
    group : int
        Number of the group.

    Returns
    -------
    int
    """
    return sum(-(-(stop - start) // plan.block_rows) for start, stop in plan.groups[:group])


def bucket_edges(n_cells: int, n_groups: int) -> Int64:
    """Edges of the ranges of cells into which sorted row blocks are divided.

    Parameters
    ----------
    n_cells, n_groups : int
        Cells and groups of the run.

    Returns
    -------
    (B + 1,) int64 array
    """
    n_buckets = min(n_cells, n_groups, _MOST_BUCKETS)
    return n_cells * np.arange(n_buckets + 1) // n_buckets


def slices(counts: Int64, edges: Int64, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """What a range of rows of the new order is made of, in that order.

    Parameters
    ----------
    counts : (P, K) int64 array
        Rows of each cell in each row block of the user's order.
    edges : (B + 1,) int64 array
        As `bucket_edges` returns them.
    start, stop : int
        The range.

    Yields
    ------
    (int, int, int, int)
        Row block and bucket of a `SortedRows`, and the range of its rows.
    """
    n_blocks = len(counts)
    ends = np.cumsum(counts.T)  # cell by cell, and in each the row blocks
    offsets = np.cumsum(counts, axis=1) - counts
    part = int(np.searchsorted(ends, start, side="right"))
    while start < stop:
        cell, block = divmod(part, n_blocks)
        end = min(int(ends[part]), stop)
        if end > start:
            bucket = int(np.searchsorted(edges, cell, side="right")) - 1
            in_bucket = int(offsets[block, cell] - offsets[block, edges[bucket]])
            low = in_bucket + start - int(ends[part] - counts[block, cell])
            yield block, bucket, low, low + end - start
            start = end
        part += 1


def scratch_bytes(rows: RowSource, settings: Settings) -> int:
    """Disk space that re-ordered rows take at most: twice the rows, while the sorted parts are there as well.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        Of the run.

    Returns
    -------
    int
        Bytes; 0 where a run from seeds keeps the user's order.
    """
    if not reorders_rows(settings):
        return 0
    row_bytes = n_features_of(rows) * rows.dtype.itemsize
    return rows.n_rows * (2 * row_bytes + 4 * settings.truncation + 8)
