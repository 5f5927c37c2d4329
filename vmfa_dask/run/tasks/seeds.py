"""Tasks that turn rows into seeds, and seeds into version 0 of a run. May import: values, em, seeding, run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import Rows, working_rows
from vmfa_dask.kernels import random, survey
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_source import gather, read_ahead
from vmfa_dask.run.start import write_start
from vmfa_dask.seeding.afkmc2 import Candidates, draw_candidates, run_chains
from vmfa_dask.seeding.sample import sampled_rows
from vmfa_dask.values import Float64, Int64


def first_seed(context: RunContext) -> Float64:
    """The first seed, a row of the data.

    Parameters
    ----------
    context : RunContext
        The run in this process.

    Returns
    -------
    (D,) float64 array
    """
    row = context.storage.read(addresses.RowSurvey())["first_row"]
    seed: Float64 = gather(context.rows, row)[0].astype(np.float64)
    return seed


def squared_distances_to(context: RunContext, block: Rows, center: Float64) -> Float64:
    """Squared distances of the rows of a block to a point, in units of the features.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : (n, D) array
        The rows, as they are stored.
    center : (D,) float64 array
        The point.

    Returns
    -------
    (n,) float64 array
    """
    distances, scales = np.empty(len(block)), context.scales()
    context.cores.run(
        lambda a, b: survey.squared_distances(block, center, scales, a, b, distances),
        context.cores.split(len(block), 2 * block.shape[1]),
    )
    return distances


def distance_mass(context: RunContext, group: int) -> float:
    """Sum of the squared distances of a group's rows to the first seed: its share of the proposal of AFK-MC².

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.

    Returns
    -------
    float
    """
    center = first_seed(context)
    with context.cores.exclusive():
        blocks = read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows)
        return float(sum(squared_distances_to(context, block, center).sum() for _, block in blocks))


def gather_candidates(context: RunContext, group: int, masses: Sequence[float]) -> Candidates:
    """All candidates that the proposal ½ d²/Σd² + ½ 1/N places in one group.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    masses : sequence of float
        Results of `distance_mass` for all groups.

    Returns
    -------
    Candidates
    """
    settings, n_rows = context.settings, context.plan.n_rows
    start, stop = context.plan.groups[group]
    numbers = draw_candidates(settings.n_components, settings.chain_length, settings.random_state)
    total = float(np.sum(masses))
    by_distance = (numbers[:, 0] < 0.5) & (total > 0)
    before = float(np.sum(masses[:group]))
    targets = numbers[:, 1] * total
    last = group == len(masses) - 1
    in_group = by_distance & (targets >= before) & (last | (targets < before + masses[group]))
    uniform = np.minimum((numbers[:, 1] * n_rows).astype(np.int64), n_rows - 1)
    chosen = np.where(by_distance, -1, uniform)
    center, offset = first_seed(context), context.offset()
    gathered: list[tuple[Int64, Int64, Rows, Float64]] = []
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            distances = squared_distances_to(context, block, center)
            edges = before + np.cumsum(distances)
            end = np.inf if last and first + len(block) == stop else edges[-1]
            in_block = in_group & (targets >= before) & (targets < end)
            numbers_in_block = np.searchsorted(edges, targets[in_block], side="right")
            chosen[in_block] = first + np.minimum(numbers_in_block, len(block) - 1)
            draws = np.flatnonzero((chosen >= first) & (chosen < first + len(block)))
            local = chosen[draws] - first
            values = working_rows(block[local], offset, settings.precision)
            gathered.append((draws, chosen[draws], values, distances[local]))
            in_group &= ~in_block
            before = float(edges[-1])
    return Candidates(*(np.concatenate(parts) for parts in zip(*gathered, strict=True)))


def initialize_chains(context: RunContext, masses: Sequence[float], *parts: Candidates) -> int:
    """Write version 0 from AFK-MC² seeds.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    masses : sequence of float
        Results of `distance_mass` for all groups.
    *parts : Candidates
        Candidates of all groups.

    Returns
    -------
    int
        The number of distinct seeds.
    """
    settings, surveyed = context.settings, context.storage.read(addresses.RowSurvey())
    first = first_seed(context) - surveyed["offset"], int(surveyed["first_row"][0])
    sizes = (settings.n_components, settings.chain_length, settings.random_state)
    total = float(np.sum(masses))
    seeds = run_chains(parts, total, context.plan.n_rows, *first, *sizes, context.scales(), context.cores)
    write_start(context, seeds.rows, seeds.values, surveyed["variances"])
    return seeds.n_distinct


def initialize_from_rows(context: RunContext, rows: Int64) -> int:
    """Write version 0 with the means at some rows.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    rows : (C,) int64 array
        Their numbers.

    Returns
    -------
    int
        The number of distinct seeds.
    """
    seeds = gather(context.rows, rows).astype(np.float64) - context.offset()
    write_start(context, rows, seeds, context.storage.read(addresses.RowSurvey())["variances"])
    return len(np.unique(seeds, axis=0))


def initialize_noise(context: RunContext) -> int:
    """Write version 0 with means uniform in the range of each feature, and unit variances (paper, ablation).

    Parameters
    ----------
    context : RunContext
        The run in this process.

    Returns
    -------
    int
        C.
    """
    surveyed, settings = context.storage.read(addresses.RowSurvey()), context.settings
    lowest, highest, offset = (surveyed[name] for name in ("lowest", "highest", "offset"))
    draws = np.empty((settings.n_components, len(lowest)))
    random.uniforms(settings.random_state, random.SEED_ROWS, 3, 0, draws)
    seeds = lowest + draws * (highest - lowest) - offset
    write_start(context, np.zeros(0, np.int64), seeds, np.square(context.scales()))
    return len(seeds)


def sample_group(context: RunContext, group: int, n_sampled: int) -> Rows:
    """The rows of a sample of all rows that lie in one group.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    n_sampled : int
        Size of the whole sample.

    Returns
    -------
    (n, D) array
        As they are stored.
    """
    return rows_of_group(context, group, sampled_rows(context.plan.n_rows, n_sampled, context.settings.random_state))


def rows_of_group(context: RunContext, group: int, numbers: Int64) -> Rows:
    """Those of some rows that lie in one group.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    numbers : (K,) int64 array
        Row numbers, ascending.

    Returns
    -------
    (n, D) array
        As they are stored.
    """
    parts: list[Rows] = []
    for first, block in read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows):
        low, high = np.searchsorted(numbers, [first, first + len(block)])
        parts.append(block[numbers[low:high] - first])
    return np.concatenate(parts)
