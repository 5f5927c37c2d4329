"""The task that gives rows their first kept components, from the cells of the seeds.

May import: values, em, seeding, run.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import read_only, working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_source import read_ahead
from vmfa_dask.run.start import seeded_components
from vmfa_dask.seeding.cells import Centers, rows_by_owner
from vmfa_dask.values import Int32


def begin_in_cells(context: RunContext, group: int) -> None:
    """Write first K_n of the rows of a group: the component that a row seeds, then the nearest ones of its cell.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    """
    start, stop = context.plan.groups[group]
    components = np.empty((stop - start, context.settings.truncation), np.int32)
    cells, offset, scales = context.storage.read(addresses.SeedCells()), context.offset(), context.scales()
    blocks = range(len(context.plan.component_blocks))
    seeds = np.concatenate([context.storage.read(addresses.Parameters(0, block))["means"] for block in blocks])
    with context.cores.exclusive():
        centers, choices = (Centers(points, scales, context.cores) for points in (cells["centers"], seeds))
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            rows = working_rows(block, offset, context.settings.precision)
            for cell, members in rows_by_owner(centers.owners(rows)):
                low, high = cells["edges"][cell : cell + 2]
                chosen = choices.nearest(read_only(rows[members]), components.shape[1], slice(low, high))
                components[first - start + members] = low + chosen
    _put_in_front(components, seeded_components(context, group)[:, 0])
    context.storage.write(addresses.Posterior(0, group), {"components": components})


def _put_in_front(components: Int32, seeded: Int32) -> None:
    """Move the component that a row seeds, −1 for none, to the front of its K_n, or let it replace the last one."""
    rows = np.flatnonzero(seeded >= 0)
    first, others = seeded[rows, None], components[rows]
    rest = np.argsort(others == first, axis=1, kind="stable")[:, :-1]
    components[rows] = np.column_stack([first, np.take_along_axis(others, rest, axis=1)])
