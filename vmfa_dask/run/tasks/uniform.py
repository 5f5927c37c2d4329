"""Tasks of uniformly drawn seeds: read one by one for a few, by all groups where there are very many.

May import: em, kernels, run.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels import random
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.start import write_start
from vmfa_dask.run.tasks.seeds import initialize_from_rows, rows_of_group
from vmfa_dask.values import Int64

# Of rows that may coincide, one in so many is drawn beside the C that are needed.
_SPARE = 2


def initialize_uniform(context: RunContext) -> int:
    """Write version 0 with the means at C distinct rows, uniformly drawn.

    Parameters
    ----------
    context : RunContext
        The run in this process.

    Returns
    -------
    int
        The number of distinct seeds.
    """
    return initialize_from_rows(context, _uniform_rows(context, context.settings.n_components))


def _uniform_rows(context: RunContext, n_wanted: int) -> Int64:
    """Numbers of distinct rows, uniformly drawn; the first ones are the same however many are wanted."""
    settings, n = context.settings, context.plan.n_rows
    chosen: dict[int, None] = {}
    numbers, draw = np.empty((settings.n_components * 2 + 64, 1)), 0
    while len(chosen) < n_wanted:
        random.uniforms(settings.random_state, random.SEED_ROWS, 2, draw, numbers)
        for row in np.minimum((numbers[:, 0] * n).astype(np.int64), n - 1).tolist():
            chosen.setdefault(row, None)
        draw += len(numbers)
    return np.array(list(chosen)[:n_wanted], np.int64)


def gather_uniform(context: RunContext, group: int) -> Rows:
    """Those of the uniformly drawn rows that lie in one group: some more than C, as rows may coincide.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.

    Returns
    -------
    (n, D) array
        As they are stored, in ascending order.
    """
    return rows_of_group(context, group, np.sort(_uniform_rows(context, _n_spare(context))))


def _n_spare(context: RunContext) -> int:
    c, n = context.settings.n_components, context.plan.n_rows
    return min(n, c + c // _SPARE)


def initialize_distinct(context: RunContext, *parts: Rows) -> int:
    """Write version 0 with the means at uniformly drawn rows, the first C that differ.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    *parts : (n, D) arrays
        Results of `gather_uniform` for all groups.

    Returns
    -------
    int
        The number of distinct seeds.
    """
    c = context.settings.n_components
    drawn, rows = _uniform_rows(context, _n_spare(context)), np.concatenate(parts)
    ascending = np.argsort(drawn)
    position = np.empty_like(ascending)
    position[ascending] = np.arange(len(drawn))  # of a drawn row among all of them in ascending order
    rows = rows[position]
    first_of: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        first_of.setdefault(row.tobytes(), number)
    first = np.array(list(first_of.values()))
    chosen = np.concatenate([first, np.setdiff1d(np.arange(len(drawn)), first)])[:c]
    seeds = rows[chosen].astype(np.float64) - context.offset()
    write_start(context, drawn[chosen], seeds, context.storage.read(addresses.RowSurvey())["variances"])
    return min(c, len(first))
