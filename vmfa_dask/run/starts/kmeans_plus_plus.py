"""k-means++ out of core (Arthur and Vassilvitskii 2007): C passes over the rows, each updates squared distances.

A seed is drawn with a probability proportional to the squared distance of its row to the nearest seed so far. May
import: values, kernels, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.kernels import random
from vmfa_dask.run.executor import Executor
from vmfa_dask.run.tasks.nearest import draw_row, update_nearest
from vmfa_dask.values import Float64, Int64


def draw_seeds(executor: Executor) -> Int64:
    """Draw the seeds of a run.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.

    Returns
    -------
    (C,) int64 array
        Row numbers of the seeds; the first one is that of the survey.
    """
    settings, n_groups = executor.settings, len(executor.plan.groups)
    draws = np.empty((settings.n_components, 1))
    random.uniforms(settings.random_state, random.SEED_ROWS, 4, 0, draws)
    rows = [int(executor.storage.read(addresses.RowSurvey())["first_row"][0])]
    while len(rows) < settings.n_components:
        step = len(rows)
        handles = [executor.submit("seed-nearest", g, update_nearest, g, step, rows[-1]) for g in range(n_groups)]
        masses = np.array(executor.results(handles))
        group, rest = _group_of(masses, draws[step, 0])
        chosen = executor.submit("seed-draw", group, draw_row, group, step, rest, draws[step, 0])
        rows.append(int(executor.results([chosen])[0]))
        executor.storage.discard(addresses.NEAREST, step - 1)
    executor.storage.discard(addresses.NEAREST, settings.n_components - 1)
    return np.array(rows, np.int64)


def _group_of(masses: Float64, draw: float) -> tuple[int, float]:
    """Group in which a draw from all rows falls, and the mass that is left there; -1 where all rows are seeds."""
    edges = np.cumsum(masses)
    target = draw * edges[-1]
    group = min(int(np.searchsorted(edges, target, side="right")), len(masses) - 1)
    while group > 0 and masses[group] == 0:  # rounding has led past the last mass
        group -= 1
    return group, float(target - (edges[group] - masses[group])) if edges[-1] > 0 else -1.0
