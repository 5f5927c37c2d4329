"""Tasks that copy the rows of a run into the order of their cells. May import: addresses, values, em, run."""

from __future__ import annotations

import errno
import itertools

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import Rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_copies import SORTED, OrderedRowBlock, RowCells, RowCounts, RowNumbers, SortedRows
from vmfa_dask.run.row_order import bucket_edges, first_block_of, row_blocks, scratch_bytes, slices
from vmfa_dask.run.row_source import n_features_of, read_ahead
from vmfa_dask.run.storage import Arrays
from vmfa_dask.values import Int32, Int64


def check_room(context: RunContext) -> None:
    """Refuse to copy the rows where they do not fit, before the first one is written.

    Parameters
    ----------
    context : RunContext
        The run in this process.

    Raises
    ------
    OSError
        If fewer bytes are free; the message names both numbers.
    """
    needed, free = scratch_bytes(context.rows, context.settings), context.copies.free_bytes()
    if free is not None and free < needed:
        message = f"that takes up to {needed / 2**20:.1f} MiB, and {free / 2**20:.1f} MiB are free"
        raise OSError(errno.ENOSPC, message, context.copies.path)


def write_sorted(
    context: RunContext,
    block: int,
    first: int,
    rows: Rows,
    cells: Int32 | Int64,
    n_cells: int,
    components: Int32 | None,
) -> Int64:
    """Write a row block sorted by cell, in buckets.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block, first : int
        Number of the row block among those of all groups, and of its first row.
    rows : (n, D) array
        Its rows, as they are stored.
    cells : (n,) int array
        Their cells.
    n_cells : int
        K.
    components : (n, C') int32 array or None
        Their first K_n, which go with them.

    Returns
    -------
    (K,) int64 array
        Rows of each cell.
    """
    order = np.argsort(cells, kind="stable")
    counts = np.bincount(cells, minlength=n_cells)
    begins = np.concatenate([[0], np.cumsum(counts)])[bucket_edges(n_cells, len(context.plan.groups))]
    for bucket, (low, high) in enumerate(itertools.pairwise(begins)):
        if low < high:
            part = order[low:high]
            arrays = {"rows": rows[part], "numbers": first + part}
            if components is not None:
                arrays["components"] = components[part]
            context.copies.write(SortedRows(block, bucket), arrays)
    return counts


def sort_rows(context: RunContext, group: int) -> None:
    """Write the row blocks of a group of the user's order again, sorted by the cells that are known of them.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    """
    (start, stop), number = context.plan.groups[group], first_block_of(context.plan, group)
    cells = context.storage.read(RowCells(group))["cells"]
    n_cells = len(context.storage.read(addresses.SeedCells())["centers"])
    for k, (first, block) in enumerate(read_ahead(context.rows, start, stop, context.plan.block_rows)):
        part = cells[first - start : first - start + len(block)]
        write_sorted(context, number + k, first, block, part, n_cells, None)


def gather_rows(context: RunContext, group: int, begin: bool) -> None:
    """Write the row blocks of a group of the new order.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    begin : bool
        Whether the run begins: then their numbers and first K_n are written, too.
    """
    counts = context.storage.read(RowCounts())["counts"]
    edges = bucket_edges(counts.shape[1], len(context.plan.groups))
    (start, stop), width = context.plan.groups[group], n_features_of(context.rows)
    numbers = np.empty(stop - start, np.int64)
    components = np.empty((stop - start, context.settings.truncation), np.int32)
    parts: dict[SortedRows, Arrays] = {}  # of a few buckets; mapped where the storage maps files
    for number, (first, last) in enumerate(row_blocks(context.plan, group)):
        rows, position = np.empty((last - first, width), context.rows.dtype), 0
        for block, bucket, low, high in slices(counts, edges, first, last):
            address = SortedRows(block, bucket)
            part = parts[address] = parts.get(address) or context.copies.read(address)
            target = slice(position, position + high - low)
            rows[target] = part["rows"][low:high]
            if begin:
                numbers[first - start :][target] = part["numbers"][low:high]
                components[first - start :][target] = part["components"][low:high]
            position = target.stop
        context.copies.write(OrderedRowBlock(group, number), {"rows": rows})
    if begin:
        context.storage.write(RowNumbers(group), {"numbers": numbers})
        context.storage.write(addresses.Posterior(0, group), {"components": components})


def drop_sorted(context: RunContext) -> None:
    """Remove the sorted row blocks, once all groups of the new order are written.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    """
    for _ in range(2):  # a storage may set the files of one version aside, until the next one is discarded
        context.copies.discard(SORTED, 0)
