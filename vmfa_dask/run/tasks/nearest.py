"""Tasks of k-means++: distances of rows to the nearest seed, and the next seed. May import: values, run."""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_source import gather, read_ahead
from vmfa_dask.run.tasks.seeds import squared_distances_to


def update_nearest(context: RunContext, group: int, step: int, seed_row: int) -> float:
    """Write the squared distances of a group's rows to their nearest seed, the newest one included.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    step : int
        Number of seeds so far: the version of the distances.
    seed_row : int
        Row number of the newest seed.

    Returns
    -------
    float
        The sum of the distances.
    """
    start, stop = context.plan.groups[group]
    center = gather(context.rows, np.array([seed_row]))[0].astype(np.float64)
    nearest = np.empty(stop - start)
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            nearest[first - start : first - start + len(block)] = squared_distances_to(context, block, center)
    if step > 1:
        np.minimum(nearest, context.storage.read(addresses.NearestSeed(step - 1, group))["distances"], out=nearest)
    context.storage.write(addresses.NearestSeed(step, group), {"distances": nearest})
    return float(nearest.sum())


def draw_row(context: RunContext, group: int, step: int, mass: float, draw: float) -> int:
    """Draw a row of a group with a probability proportional to its squared distance to the nearest seed.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    step : int
        Number of seeds so far.
    mass : float
        Cumulated distance at which the row lies; negative where every row coincides with a seed.
    draw : float
        A uniform number in [0, 1), for a uniform row in the latter case.

    Returns
    -------
    int
        Its number.
    """
    start = context.plan.groups[group][0]
    if mass < 0:
        return min(int(draw * context.plan.n_rows), context.plan.n_rows - 1)
    nearest = context.storage.read(addresses.NearestSeed(step, group))["distances"]
    row = min(int(np.searchsorted(np.cumsum(nearest), mass, side="right")), len(nearest) - 1)
    while row > 0 and nearest[row] == 0:
        row -= 1
    return start + row
