"""The task of the E-step: one group of rows. May import: values, em, run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vmfa_dask.em.e_step import NoFiniteDensity, PartialSums, partial_e_step
from vmfa_dask.em.moments import MomentSum, touched_components
from vmfa_dask.em.packed import ModelVersion
from vmfa_dask.em.rows import Rows, read_only, working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.handover import PartialResult, hand_over
from vmfa_dask.run.row_checks import refuse_row, refuse_values
from vmfa_dask.run.row_source import read_ahead, refuse_non_finite
from vmfa_dask.run.start import initial_components
from vmfa_dask.run.step import Step
from vmfa_dask.run.versions import read_posterior, write_posterior
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.values import Centers, Mixture, RowTally, TruncatedPosterior


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
    posterior = _posterior(context, group, step.iteration)
    with context.cores.exclusive():
        sums = _evaluate_group(context, group, step, posterior)
    if context.settings.search == "guided":
        write_posterior(context.storage, step.iteration + 1, group, sums.posterior)
    statistics = [sums.statistics(start, stop) for start, stop in context.plan.component_blocks]
    return hand_over(context, group, step, statistics, sums.tally)


def _posterior(context: RunContext, group: int, iteration: int) -> TruncatedPosterior:
    """Kept components of the rows of a group, as the pass before has left them."""
    settings = context.settings
    if settings.search == "exhaustive":  # which components are kept follows from the parameters alone
        start, stop = context.plan.groups[group]
        return TruncatedPosterior(np.empty((stop - start, settings.truncation), np.int32))
    try:
        posterior = read_posterior(context.storage, iteration, group)
    except KeyError:
        if iteration:
            raise
        posterior = TruncatedPosterior(read_only(initial_components(context, group)))
    if settings.search_every > 1 and posterior.resting is None:
        return replace(posterior, resting=read_only(np.zeros(len(posterior.components), np.uint8)))
    return posterior


def _evaluate_group(context: RunContext, group: int, step: Step, posterior: TruncatedPosterior) -> PartialSums:
    """The E-step of all row blocks of a group; its moments in the precision of the run."""
    watch = Stopwatch()
    options = context.search_options(step)
    model = context.model(step)
    moments = _empty_moments(context, group, model, posterior) if step.update else None
    bytes_before = context.rows_in_order().bytes_read
    blocks = _row_blocks(context, group, model.mixture, step.iteration == 0, watch)
    try:
        sums = partial_e_step(blocks, posterior, model, options, moments, context.cores, context.buffers, watch)
    except NoFiniteDensity as error:
        _refuse(context, group, error, context.mixture(step.parameters))
        raise
    tally = sums.tally + RowTally(0, 0, 0.0, watch.seconds, context.rows_in_order().bytes_read - bytes_before)
    return replace(sums, tally=tally)


def _empty_moments(
    context: RunContext, group: int, model: ModelVersion, posterior: TruncatedPosterior
) -> MomentSum:
    # A group of one row block rounds its sums as it writes them: no other block is added.
    one_block = context.plan.has_one_block(context.plan.groups[group])
    n = c = context.settings.n_components
    if context.settings.search == "guided":
        n = touched_components(posterior, c)
    return MomentSum(model, context.settings.precision if one_block else "float64", n, context.cores, context.buffers)


def _row_blocks(
    context: RunContext, group: int, centers: Centers, first_pass: bool, watch: Stopwatch
) -> Iterator[tuple[int, Rows]]:
    """Row blocks of a group as kernels take them, read ahead; the first pass checks what they hold."""
    start, stop = context.plan.groups[group]
    blocks = read_ahead(context.rows_in_order(), start, stop, context.plan.block_rows)
    for first, block in watch.timed("read", blocks):
        rows = working_rows(block, centers.offset, centers.means.dtype.name)
        if first_pass:
            refuse_values(context.rows_in_order(), first, block, rows, context.settings.precision)
        yield first, rows


def _refuse(context: RunContext, group: int, error: NoFiniteDensity, mixture: Mixture) -> None:
    """Name what is wrong with a row; its row block is read again for that."""
    stop = min(error.first_row + context.plan.block_rows, context.plan.groups[group][1])
    source = context.rows_in_order()
    block = source.read(error.first_row, stop)
    refuse_non_finite(source, error.first_row, block)
    refuse_row(source, error.first_row + error.row, block[error.row], mixture)
