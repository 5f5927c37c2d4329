"""The task of the E-step: one group of rows. May import: values, em, run."""

from __future__ import annotations

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.e_step import NoFiniteDensity, PartialEStep
from vmfa_dask.em.rows import read_only, working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.handover import PartialResult, hand_over
from vmfa_dask.run.row_checks import refuse_row, refuse_values
from vmfa_dask.run.row_source import read_ahead, refuse_non_finite
from vmfa_dask.run.start import initial_components
from vmfa_dask.run.step import Step
from vmfa_dask.values import RowTally, Statistics, TruncatedPosterior


def run_e_step(context: RunContext, group: int, step: Step) -> PartialResult:
    """Partial E-step of one group: writes its posteriors, returns its statistics by component block.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    step : Step
        The pass.

    Returns
    -------
    PartialResult

    Raises
    ------
    ValueError
        Naming a row that is not finite, or that the precision of the run cannot hold.
    """
    posterior = _posterior(context, step.iteration, group)
    with context.cores.exclusive():
        e_step = _begin_e_step(context, group, step)
        updated, bytes_read = _evaluate_group(context, group, e_step, posterior, step.iteration == 0)
        statistics = _by_component_block(context, e_step)
    tally = e_step.tally + RowTally(0, 0, 0.0, e_step.watch.seconds, bytes_read)
    if context.settings.search == "guided":
        context.storage.write(addresses.Posterior(step.iteration + 1, group), updated.arrays())
    return hand_over(context, group, step, statistics, tally)


def _posterior(context: RunContext, iteration: int, group: int) -> TruncatedPosterior:
    """Kept components of the rows of a group, as the pass before has left them."""
    if context.settings.search == "exhaustive":  # which components are kept follows from the parameters alone
        start, stop = context.plan.groups[group]
        return TruncatedPosterior(np.empty((stop - start, context.settings.truncation), np.int32))
    try:
        stored = context.storage.read(addresses.Posterior(iteration, group))
        components, resting = stored["components"], stored.get("resting")
    except KeyError:
        if iteration:
            raise
        components, resting = read_only(initial_components(context, group)), None
    if context.settings.search_every > 1 and resting is None:
        resting = read_only(np.zeros(len(components), np.uint8))
    return TruncatedPosterior(components, resting)


def _begin_e_step(context: RunContext, group: int, step: Step) -> PartialEStep:
    mixture, packed = context.mixture(step.parameters), context.packed(step.parameters)
    graph, options, moments = context.graph(step.graph), context.search_options(), None
    if step.update:
        # A group of one row block rounds its sums as it writes them: no other block is added.
        one_block = context.plan.has_one_block(context.plan.groups[group])
        moments = context.empty_moments(context.settings.precision if one_block else "float64")
    tools = (context.cores, context.buffers)
    return PartialEStep(mixture, packed, graph, options, step.iteration, step.search, moments, *tools)


def _evaluate_group(
    context: RunContext, group: int, e_step: PartialEStep, posterior: TruncatedPosterior, first_pass: bool
) -> tuple[TruncatedPosterior, int]:
    """Add all row blocks of a group to its E-step; the new posterior, and the bytes that were read."""
    start, stop = context.plan.groups[group]
    mixture = e_step.mixture
    updated = np.empty_like(posterior.components)
    resting = None if posterior.resting is None else np.empty_like(posterior.resting)
    bytes_before = context.rows.bytes_read
    blocks = read_ahead(context.rows, start, stop, context.plan.block_rows)
    for first, block in e_step.watch.timed("read", blocks):
        rows = working_rows(block, mixture.offset, mixture.means.dtype.name)
        if first_pass:
            refuse_values(context.rows, first, block, rows, context.settings.precision)
        part = slice(first - start, first - start + len(block))
        try:
            kept = e_step.add(rows, first, posterior.rows(part))
        except NoFiniteDensity as error:
            refuse_non_finite(context.rows, first, block)
            refuse_row(context.rows, first + error.row, block[error.row], mixture)
            raise
        updated[part] = kept.components
        if resting is not None and kept.resting is not None:
            resting[part] = kept.resting
    e_step.finish()
    return TruncatedPosterior(updated, resting), context.rows.bytes_read - bytes_before


def _by_component_block(context: RunContext, e_step: PartialEStep) -> list[Statistics]:
    if e_step.moments is not None:
        e_step.moments = context.in_run_precision(e_step.moments)
    return [e_step.statistics(start, stop) for start, stop in context.plan.component_blocks]
