"""The tasks of a run as plain functions of a context: what any executor runs, wherever it runs it.

A task reads its inputs from the storage or gets them as results of other tasks, writes under a version of its own and
returns something small or additive. Running it twice changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vmfa_dask.em import seeding
from vmfa_dask.em.chains import run_chains
from vmfa_dask.em.context import RunContext, Step
from vmfa_dask.em.e_step import PartialEStep
from vmfa_dask.em.handover import PartialResult, hand_over, take_over
from vmfa_dask.em.m_step import BlockUpdate, merge, update_neighbors, update_parameters, update_shared_noise
from vmfa_dask.em.rows import gather, n_features_of, read_only
from vmfa_dask.em.splitting import draw_donors
from vmfa_dask.em.start import initial_components, write_start
from vmfa_dask.em.storage import GRAPH, PARAMETERS, POSTERIOR, START
from vmfa_dask.em.units import Survey
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, Int32, Int64, Moments, RowTally, Statistics, TruncatedPosterior


@dataclass(frozen=True)
class BlockReport(Sized):
    """What the update of one component block tells the driver."""

    tally: RowTally
    update: BlockUpdate | None
    seconds: float
    n_features: int


def _posterior(context: RunContext, iteration: int, group: int) -> TruncatedPosterior:
    if context.settings.search == "exhaustive":  # which components are kept follows from the parameters alone
        start, stop = context.plan.groups[group]
        return TruncatedPosterior(np.empty((stop - start, context.settings.truncation), np.int32))
    try:
        stored = context.storage.read(POSTERIOR, iteration, group)
        components, resting = stored["components"], stored.get("resting")
    except KeyError:
        if iteration:
            raise
        components, resting = read_only(initial_components(context, group)), None
    if context.settings.search_every > 1 and resting is None:
        resting = read_only(np.zeros(len(components), np.uint8))
    return TruncatedPosterior(components, resting)


def run_e_step(context: RunContext, group: int, step: Step) -> PartialResult:
    """Partial E-step of one group: writes its posteriors, returns its statistics in component blocks."""
    posterior = _posterior(context, step.iteration, group)
    with context.cores.exclusive():
        partial = PartialEStep(context, step)
        updated = partial.run(context.plan.groups[group], posterior)
        statistics = _statistics_by_block(context, step, partial)
    if context.settings.search == "guided":
        context.storage.write(POSTERIOR, step.iteration + 1, group, updated.arrays())
    return hand_over(context, group, step, statistics, partial.tally)


def _statistics_by_block(context: RunContext, step: Step, partial: PartialEStep) -> list[Statistics]:
    """What a partial E-step has summed."""
    moments, dtype, found = partial.moments, context.settings.precision, []
    if moments is not None and moments.moments.dtype != dtype:
        moments = _rounded(moments, context)
    for start, stop in context.plan.component_blocks:
        part = moments.block(start, stop) if moments else None
        divergences = partial.divergences.block(start, stop) if partial.divergences else None
        found.append(Statistics(step.parameters, start, stop, part, divergences))
    return found


def _rounded(moments: Moments, context: RunContext) -> Moments:
    """Sums over rows in the precision of the run, in which they wait and travel."""
    rounded = context.empty_moments(context.settings.precision).moments

    def fill(start: int, stop: int) -> None:
        np.copyto(rounded[start:stop], moments.moments[start:stop], casting="same_kind")

    context.cores.run(fill, context.cores.split(len(rounded)))
    return Moments(moments.counts, moments.factor_moments, rounded)


def pick_block(context: RunContext, block: int, result: PartialResult) -> PartialResult:
    """One component block of a result, so that only this part travels."""
    return PartialResult({block: result.statistics[block]}, result.tally)


def merge_block(context: RunContext, block: int, *results: PartialResult) -> PartialResult:
    """Sum of one component block over several results, in their order."""
    with context.cores.exclusive(hurry=True):
        statistics = merge([take_over(context, block, result) for result in results])
    return PartialResult({block: statistics}, _total(results))


def add_block(context: RunContext, block: int, ends: bool, *results: PartialResult) -> PartialResult:
    """A sum of merged results with the next one; float64 until it `ends`, as if one task had summed them all."""
    with context.cores.exclusive(hurry=True):
        dtype = context.settings.precision if ends else "float64"
        statistics = merge([result.statistics[block] for result in results], dtype)
    return PartialResult({block: statistics}, _total(results))


def update_block(context: RunContext, block: int, step: Step, *results: PartialResult) -> BlockReport:
    """M-step and neighbour update of one component block: writes the next versions."""
    begin, update = time.perf_counter(), None
    parts = [take_over(context, block, result) for result in results]
    with context.cores.exclusive(hurry=True):
        if step.search:
            update_neighbors(context, block, step, parts)
        if step.update:
            update = update_parameters(context, block, step, parts)
    return BlockReport(_total(results), update, time.perf_counter() - begin, n_features_of(context.rows))


def update_noise(context: RunContext, step: Step, *reports: BlockReport) -> None:
    """The noise variances that all components share, once every component block has its new parameters."""
    update_shared_noise(context, step, [report.update for report in reports if report.update is not None])


def split_components(context: RunContext, step: Step, lost: Sequence[int]) -> None:
    """Patches of the next versions, in which components that lost all their rows take half of another one."""
    n_blocks, version = len(context.plan.component_blocks), step.parameters + 1
    weights = np.concatenate([context.storage.read(PARAMETERS, version, b)["weights"] for b in range(n_blocks)])
    patch = draw_donors(weights, lost, context.settings, version)
    context.storage.write(PARAMETERS, version, n_blocks + 1, patch)
    if step.search:
        context.storage.write(GRAPH, step.graph + 1, n_blocks + 1, dict(patch))


def _total(results: Sequence[PartialResult]) -> RowTally:
    total = results[0].tally
    for result in results[1:]:
        total += result.tally
    return total


def begin_run(context: RunContext, offset: Float64 | None, *surveys: Survey) -> None:
    """Offset, variances, units and first seed from the surveys of all groups; `offset` is that of a given start."""
    seeding.begin(context, surveys, offset)


def _variances(context: RunContext) -> Float64:
    return context.storage.read(START, 0, 0)["variances"]


def initialize_from_rows(context: RunContext, rows: Int64) -> int:
    """Version 0 from rows of these numbers (C,); returns the number of distinct seeds."""
    seeds = gather(context.rows, rows).astype(np.float64) - context.offset()
    write_start(context, rows, seeds, _variances(context))
    return len(np.unique(seeds, axis=0))


def initialize_uniform(context: RunContext) -> int:
    """Version 0 from uniformly drawn rows; returns the number of distinct seeds."""
    return initialize_from_rows(context, seeding.uniform_seeds(context))


def initialize_noise(context: RunContext) -> int:
    """Version 0 with means uniform in the range of each feature and unit variances (paper, ablation); returns C."""
    seeds = seeding.noise_seeds(context)
    write_start(context, np.zeros(0, np.int64), seeds, np.square(context.scales()))
    return len(seeds)


def initialize_chains(context: RunContext, masses: Sequence[float], *parts: seeding.Candidates) -> int:
    """Version 0 from AFK-MC² seeds; returns the number of distinct seeds."""
    rows, seeds, n_distinct = run_chains(context, parts, masses)
    write_start(context, rows, seeds, _variances(context))
    return n_distinct


def load_posterior(context: RunContext, group: int, iteration: int) -> Int32:
    """Kept components of the rows of one group."""
    return context.storage.read(POSTERIOR, iteration, group)["components"]
