"""A sample of the rows, gathered in one pass: one row at a hashed place in each of equal stretches of all rows.

May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.rows import Rows, read_ahead
from vmfa_dask.kernels import random
from vmfa_dask.values import Int64


def sampled_rows(n_rows: int, n_sampled: int, seed: int) -> Int64:
    """Numbers of the rows of a sample, ascending; all rows where there are no more than `n_sampled`."""
    if n_sampled >= n_rows:
        return np.arange(n_rows)
    draws = np.empty((n_sampled, 1))
    random.uniforms(seed, random.SAMPLE, 0, 0, draws)
    edges = n_rows * np.arange(n_sampled + 1) // n_sampled
    return edges[:-1] + (draws[:, 0] * np.diff(edges)).astype(np.int64)


def sample_group(context: RunContext, group: int, n_sampled: int) -> Rows:
    """The rows of a sample that lie in one group, (n, D) as they are stored."""
    start, stop = context.plan.groups[group]
    numbers = sampled_rows(context.plan.n_rows, n_sampled, context.settings.random_state)
    numbers = numbers[(numbers >= start) & (numbers < stop)]
    parts: list[Rows] = []
    for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
        here = numbers[(numbers >= first) & (numbers < first + len(block))]
        parts.append(block[here - first])
    return np.concatenate(parts)


def joined(parts: Sequence[Rows]) -> Rows:
    """The sample, in the order of the rows."""
    return np.concatenate(parts)
