"""Seeds out of core (paper, section on the algorithmic realization; AFK-MC²: Bachem et al. 2016).

The proposal of AFK-MC² does not depend on the state of its chains, so the candidates of *all* chains are drawn at once
and gathered in one pass over the rows; the chains then run on that small array. May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.ranges import refuse_scales, refuse_span, with_squares
from vmfa_dask.em.rows import Rows, gather, read_ahead, refuse_non_finite, working_rows
from vmfa_dask.em.storage import START
from vmfa_dask.em.units import Survey, join_extremes
from vmfa_dask.kernels import random, survey
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, Int64

# A feature is shifted when its mean exceeds this many standard deviations: then float32 would lose digits of the rows.
_OFFSET_DEVIATIONS = 64.0


@dataclass(frozen=True)
class Candidates(Sized):
    """Candidates of the chains that lie in one group: draw numbers, row numbers, rows − offset, squared distances.

    The rows are as kernels take them (see `rows.working_rows`), a quarter of a float32's size for bytes.
    """

    draws: Int64
    rows: Int64
    values: Rows
    distances: Float64


def survey_group(context: RunContext, group: int) -> Survey:
    """Moments and extremes of the features of one group; refuses rows that hold NaN or infinity."""
    total: Survey | None = None
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows):
            refuse_non_finite(context.rows, first, block)
            part = _survey_block(context, first, block, total)
            total = part if total is None else total + part
    assert total is not None
    return total


def _survey_block(context: RunContext, first: int, block: Rows, before: Survey | None) -> Survey:
    """Survey of a block; refuses rows too far from each other, or from those before, for the precision of the run."""
    n, d = block.shape
    means, squares, extremes = np.empty(d), np.empty(d), np.empty((4, d))
    parts = context.cores.split(d)
    context.cores.run(lambda a, b: survey.extremes(block, a, b, extremes), parts)
    found = Survey(n, means, squares, extremes)
    seen = found if before is None else replace(found, extremes=join_extremes(found.extremes, before.extremes))
    refuse_span(context.rows, first, block, seen.lowest, seen.highest, context.settings.precision)
    rows = with_squares(block, found.lowest, found.highest)
    context.cores.run(lambda a, b: survey.feature_moments(rows, a, b, means, squares), parts)
    return found


def begin(context: RunContext, surveys: Sequence[Survey], offset: Float64 | None = None) -> None:
    """Write offset, variances, units and the first seed of a run; `offset` (D,) is that of a given start."""
    total = surveys[0]
    for part in surveys[1:]:
        total += part
    scales = total.scales()
    if context.settings.standardize:
        refuse_scales(scales, context.settings)
    if offset is None:
        shifted = np.abs(total.means) > _OFFSET_DEVIATIONS * np.sqrt(total.variances)
        narrow = context.rows.dtype.itemsize == 1 or context.settings.precision == "float64"
        offset = np.where(shifted & (not narrow), total.means, 0.0)
    first = np.full((1, 1), -1, np.int32)
    random.distinct_integers(context.settings.random_state, random.SEED_ROWS, 0, 0, min(total.n_rows, 2**31 - 1), first)
    context.storage.write(
        START,
        0,
        0,
        {
            "offset": offset,
            "variances": total.variances,
            "scales": scales,
            "floors": total.floors(),
            "lowest": total.lowest,
            "highest": total.highest,
            "first_row": first[0].astype(np.int64),
        },
    )


def first_seed(context: RunContext) -> Float64:
    row = context.storage.read(START, 0, 0)["first_row"]
    seed: Float64 = gather(context.rows, row)[0].astype(np.float64)
    return seed


def squared_distances_to(context: RunContext, block: Rows, center: Float64) -> Float64:
    """Squared distances of the rows of a block to a point (D,) in the units of the features, (n,)."""
    distances, scales = np.empty(len(block)), context.scales()
    context.cores.run(
        lambda a, b: survey.squared_distances(block, center, scales, a, b, distances), context.cores.split(len(block))
    )
    return distances


def distance_mass(context: RunContext, group: int) -> float:
    """Sum of the squared distances of a group's rows to the first seed: its share of the proposal."""
    center = first_seed(context)
    with context.cores.exclusive():
        blocks = read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows)
        return float(sum(squared_distances_to(context, block, center).sum() for _, block in blocks))


def _draws(context: RunContext) -> Float64:
    """Uniform numbers of all candidates: kind of proposal, place."""
    settings = context.settings
    numbers = np.empty(((settings.n_components - 1) * settings.chain_length, 2))
    random.uniforms(settings.random_state, random.SEED_ROWS, 1, 0, numbers)
    return numbers


def gather_candidates(context: RunContext, group: int, masses: Sequence[float]) -> Candidates:
    """All candidates that the proposal ½ d²/Σd² + ½ 1/N places in one group."""
    start, stop = context.plan.groups[group]
    numbers, total = _draws(context), float(np.sum(masses))
    by_distance = (numbers[:, 0] < 0.5) & (total > 0)
    before = float(np.sum(masses[:group]))
    targets = numbers[:, 1] * total
    last = group == len(masses) - 1
    mine = by_distance & (targets >= before) & (last | (targets < before + masses[group]))
    uniform = np.minimum((numbers[:, 1] * context.plan.n_rows).astype(np.int64), context.plan.n_rows - 1)
    chosen = np.where(by_distance, -1, uniform)
    center, offset = first_seed(context), context.offset()
    found: list[tuple[Int64, Int64, Rows, Float64]] = []
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            distances = squared_distances_to(context, block, center)
            edges = before + np.cumsum(distances)
            end = np.inf if last and first + len(block) == stop else edges[-1]
            here = mine & (targets >= before) & (targets < end)
            chosen[here] = first + np.minimum(np.searchsorted(edges, targets[here], side="right"), len(block) - 1)
            draws = np.flatnonzero((chosen >= first) & (chosen < first + len(block)))
            local = chosen[draws] - first
            values = working_rows(block[local], offset, context.settings.precision)
            found.append((draws, chosen[draws], values, distances[local]))
            mine &= ~here
            before = float(edges[-1])
    return Candidates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def uniform_seeds(context: RunContext) -> Int64:
    """C distinct row numbers, uniformly drawn, ascending draws of one hash stream."""
    settings, n = context.settings, context.plan.n_rows
    chosen: dict[int, None] = {}
    numbers, draw = np.empty((settings.n_components * 2 + 64, 1)), 0
    while len(chosen) < settings.n_components:
        random.uniforms(settings.random_state, random.SEED_ROWS, 2, draw, numbers)
        for value in np.minimum((numbers[:, 0] * n).astype(np.int64), n - 1).tolist():
            chosen.setdefault(value, None)
        draw += len(numbers)
    return np.array(list(chosen)[: settings.n_components], np.int64)


def noise_seeds(context: RunContext) -> Float64:
    """Means (C, D) uniform in the range of each feature, relative to the offset."""
    known, settings = context.storage.read(START, 0, 0), context.settings
    seeds = np.empty((settings.n_components, len(known["lowest"])))
    random.uniforms(settings.random_state, random.SEED_ROWS, 3, 0, seeds)
    lowest: Float64 = known["lowest"]
    return lowest + seeds * (known["highest"] - lowest) - known["offset"]
