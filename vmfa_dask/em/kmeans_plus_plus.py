"""k-means++ out of core (Arthur and Vassilvitskii 2007): C passes over the rows, each updates squared distances.

A seed is drawn with a probability proportional to the squared distance of its row to the nearest seed so far. May
import: values, kernels, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.executor import Executor
from vmfa_dask.em.rows import gather, read_ahead
from vmfa_dask.em.seeding import squared_distances_to
from vmfa_dask.em.storage import NEAREST, START
from vmfa_dask.kernels import random
from vmfa_dask.values import Float64, Int64


def draw_seeds(executor: Executor) -> Int64:
    """Rows of the C seeds, (C,); the first one is that of the survey."""
    settings, n_groups = executor.settings, len(executor.plan.groups)
    draws = np.empty((settings.n_components, 1))
    random.uniforms(settings.random_state, random.SEED_ROWS, 4, 0, draws)
    rows = [int(executor.storage.read(START, 0, 0)["first_row"][0])]
    while len(rows) < settings.n_components:
        step = len(rows)
        handles = [executor.submit("seed-nearest", g, update_nearest, g, step, rows[-1]) for g in range(n_groups)]
        masses = np.array(executor.results(handles))
        group, rest = _place(masses, draws[step, 0])
        chosen = executor.submit("seed-draw", group, draw_row, group, step, rest, draws[step, 0])
        rows.append(int(executor.results([chosen])[0]))
        executor.storage.discard(NEAREST, step - 1)
    executor.storage.discard(NEAREST, settings.n_components - 1)
    return np.array(rows, np.int64)


def _place(masses: Float64, draw: float) -> tuple[int, float]:
    """Group in which a draw from all rows falls, and the mass that is left there; -1 where all rows are seeds."""
    edges = np.cumsum(masses)
    target = draw * edges[-1]
    group = min(int(np.searchsorted(edges, target, side="right")), len(masses) - 1)
    while group > 0 and masses[group] == 0:  # rounding has led past the last mass
        group -= 1
    return group, float(target - (edges[group] - masses[group])) if edges[-1] > 0 else -1.0


def update_nearest(context: RunContext, group: int, step: int, seed_row: int) -> float:
    """Squared distances of a group's rows to their nearest seed, the newest one included: version `step`; their sum."""
    start, stop = context.plan.groups[group]
    center = gather(context.rows, np.array([seed_row]))[0].astype(np.float64)
    nearest = np.empty(stop - start)
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            nearest[first - start : first - start + len(block)] = squared_distances_to(context, block, center)
    if step > 1:
        np.minimum(nearest, context.storage.read(NEAREST, step - 1, group)["distances"], out=nearest)
    context.storage.write(NEAREST, step, group, {"distances": nearest})
    return float(nearest.sum())


def draw_row(context: RunContext, group: int, step: int, mass: float, draw: float) -> int:
    """Row at which the cumulated distances of a group reach `mass`; a uniform one where every row is a seed already."""
    start = context.plan.groups[group][0]
    if mass < 0:
        return min(int(draw * context.plan.n_rows), context.plan.n_rows - 1)
    nearest = context.storage.read(NEAREST, step, group)["distances"]
    place = min(int(np.searchsorted(np.cumsum(nearest), mass, side="right")), len(nearest) - 1)
    while place > 0 and nearest[place] == 0:
        place -= 1
    return start + place
