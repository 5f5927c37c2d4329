"""The task that gives rows their first kept components, from the cells of the seeds, and sorts them by cell.

May import: values, em, seeding, run.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import read_only, working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_copies import RowCells
from vmfa_dask.run.row_order import first_block_of
from vmfa_dask.run.row_source import read_ahead
from vmfa_dask.run.start import seeded_components
from vmfa_dask.run.tasks.row_order import write_sorted
from vmfa_dask.seeding.cells import Centers, rows_by_owner
from vmfa_dask.values import Int32, Int64


def begin_in_cells(context: RunContext, group: int, reorder: bool) -> Int64:
    """Give the rows of a group their first K_n: the component that a row seeds, then the nearest ones of its cell.

    Where rows are re-ordered, they are written together, sorted by cell; otherwise K_n alone is written.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    reorder : bool
        Whether the rows of the run are copied into the order of their cells.

    Returns
    -------
    (P, K) int64 array
        Rows of each cell in each row block of the group; empty unless they are re-ordered.
    """
    (start, stop), number = context.plan.groups[group], first_block_of(context.plan, group)
    components = np.empty((stop - start, context.settings.truncation), np.int32)
    seeded, owners = seeded_components(context, group)[:, 0], np.empty(stop - start, np.int64)
    counts: list[Int64] = []
    cells, offset, scales = context.storage.read(addresses.SeedCells()), context.offset(), context.scales()
    with context.cores.exclusive():
        centers = Centers(cells["centers"], scales, context.cores)
        choices = context.for_start("seeds", lambda: _seeds(context))
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            rows = working_rows(block, offset, context.settings.precision)
            part = slice(first - start, first - start + len(block))
            owners[part] = centers.owners(rows)
            kept = components[part]
            for cell, members in rows_by_owner(owners[part]):
                low, high = cells["edges"][cell : cell + 2]
                chosen = choices.nearest(read_only(rows[members]), components.shape[1], slice(low, high))
                kept[members] = low + chosen
            _put_in_front(kept, seeded[part])
            if reorder:
                sizes = number + len(counts), first, block, owners[part], len(cells["centers"])
                counts.append(write_sorted(context, *sizes, kept))
    if reorder:
        context.storage.write(RowCells(group), {"cells": owners.astype(np.int32)})
    else:
        context.storage.write(addresses.Posterior(0, group), {"components": components})
    return np.array(counts, np.int64)


def _seeds(context: RunContext) -> Centers:
    """The seeds of the run, which are the means of version 0."""
    blocks = range(len(context.plan.component_blocks))
    means = np.concatenate([context.storage.read(addresses.Parameters(0, block))["means"] for block in blocks])
    return Centers(means, context.scales(), context.cores)


def _put_in_front(components: Int32, seeded: Int32) -> None:
    """Move the component that a row seeds, −1 for none, to the front of its K_n, or let it replace the last one."""
    rows = np.flatnonzero(seeded >= 0)
    first, others = seeded[rows, None], components[rows]
    rest = np.argsort(others == first, axis=1, kind="stable")[:, :-1]
    components[rows] = np.column_stack([first, np.take_along_axis(others, rest, axis=1)])
