"""Tasks of the M-step and of the neighbour update, one component block each. May import: values, em, run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.m_step import ParameterBlock, average_noise, maximize_block, nearest_neighbors
from vmfa_dask.em.splitting import draw_donors
from vmfa_dask.em.statistics import merge_divergences
from vmfa_dask.run.component_blocks import PARAMETER_NAMES, read_block, read_neighbors
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.handover import PartialResult, take_over
from vmfa_dask.run.packed_versions import write_packed
from vmfa_dask.run.row_source import n_features_of
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.merge import total_tally
from vmfa_dask.sizes import Sized
from vmfa_dask.values import ComponentParameters, Float64, RowTally, Statistics


@dataclass(frozen=True)
class BlockUpdate(Sized):
    """What the M-step of a component block reports to the driver.

    Parameters
    ----------
    n_rows : float
        Σ N_c over the block.
    n_alive : int
        Components that hold rows.
    dropped : tuple of int
        Components that just lost all their rows.
    noise : (D,) float64 array or None
        Σ N_c σ²_c where all components share their noise variances, else None.
    """

    n_rows: float
    n_alive: int
    dropped: tuple[int, ...]
    noise: Float64 | None = None


@dataclass(frozen=True)
class BlockReport(Sized):
    """What the update of one component block tells the driver.

    Parameters
    ----------
    tally : RowTally
        Sums over all rows of the pass.
    update : BlockUpdate or None
        Result of the M-step, None where the pass has none.
    seconds : float
        Wall-clock time of the update.
    n_features : int
        D.
    """

    tally: RowTally
    update: BlockUpdate | None
    seconds: float
    n_features: int


def update_block(context: RunContext, block: int, step: Step, *results: PartialResult) -> BlockReport:
    """M-step and neighbour update of one component block: writes the next versions.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : int
        Number of the component block.
    step : Step
        The pass.
    *results : PartialResult
        Summands of its statistics.

    Returns
    -------
    BlockReport
    """
    begin, update = time.perf_counter(), None
    parts = [take_over(context, block, result) for result in results]
    with context.cores.exclusive(hurry=True):
        if step.search:
            _update_neighbors(context, block, step, parts)
        if step.update:
            update = _update_parameters(context, block, step, parts)
    return BlockReport(total_tally(results), update, time.perf_counter() - begin, n_features_of(context.rows))


def _update_neighbors(context: RunContext, block: int, step: Step, parts: Sequence[Statistics]) -> None:
    start = context.plan.component_blocks[block][0]
    settings, cores = context.settings, context.cores
    divergences = merge_divergences(parts, settings.n_components, settings.graph_size, cores, context.buffers)
    assert divergences is not None
    old = read_neighbors(context.storage, settings, context.plan, step.graph, block)
    neighbors = nearest_neighbors(divergences, start, old, cores)
    context.storage.write(addresses.Graph(step.graph + 1, block), {"neighbors": neighbors})


def _update_parameters(context: RunContext, block: int, step: Step, parts: Sequence[Statistics]) -> BlockUpdate:
    old = read_block(context.storage, context.settings, context.plan, step.parameters, block)
    constraint, start = context.constraint(), context.plan.component_blocks[block][0]
    moments = [part.moments for part in parts if part.moments is not None]
    tools = (context.cores, context.buffers)
    updated = maximize_block(moments, old, context.plan.n_rows, constraint, *tools)
    shared = constraint.noise.shared
    arrays = {name: getattr(updated, name) for name in PARAMETER_NAMES if not (shared and name == "noise_variances")}
    context.storage.write(addresses.Parameters(step.parameters + 1, block), arrays)
    # Noise variances that components share are not known yet, nor which components are split.
    if not shared and context.settings.empty_components != "split":
        parameters = ComponentParameters(**arrays)
        write_packed(context.storage, context.plan, step.parameters + 1, block, parameters, *tools)
    return _block_update(updated, old.weights, start, shared)


def _block_update(updated: ParameterBlock, weights_before: Float64, start: int, shared: bool) -> BlockUpdate:
    counts = updated.counts
    dropped = np.flatnonzero((updated.weights <= 0) & (weights_before > 0)) + start
    noise = counts @ updated.noise_variances if shared else None
    return BlockUpdate(float(counts.sum()), int(np.count_nonzero(counts > 0)), tuple(dropped.tolist()), noise)


def share_packed(context: RunContext, block: int, version: int) -> None:
    """Pack a component block for all processes of the machine, where its M-step has not done so.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : int
        Number of the component block.
    version : int
        Version of the parameters.
    """
    parameters = read_block(context.storage, context.settings, context.plan, version, block)
    with context.cores.exclusive():
        tools = (context.cores, context.buffers)
        write_packed(context.storage, context.plan, version, block, parameters, *tools)


def update_noise(context: RunContext, step: Step, *reports: BlockReport) -> None:
    """Write the noise variances that all components share, once every component block has its new parameters.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    step : Step
        The pass.
    *reports : BlockReport
        Reports of all component blocks, in their order.
    """
    updates = [report.update for report in reports if report.update is not None]
    sums = [update.noise for update in updates if update.noise is not None]
    noise = average_noise(sums, sum(update.n_rows for update in updates), context.lowest_variances())
    arrays = {"noise_variances": noise.astype(context.settings.precision)}
    context.storage.write(addresses.SharedNoise(step.parameters + 1), arrays)


def split_components(context: RunContext, step: Step, lost: Sequence[int]) -> None:
    """Let components that lost all their rows take half of another one, in the next versions.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    step : Step
        The pass.
    lost : sequence of int
        The components.
    """
    version, blocks = step.parameters + 1, range(len(context.plan.component_blocks))
    weights = np.concatenate([context.storage.read(addresses.Parameters(version, b))["weights"] for b in blocks])
    splits = draw_donors(weights, lost, context.settings.random_state, version)
    # A version is written once: its splits lie beside its component blocks, and whoever reads it applies them.
    context.storage.write(addresses.SplitParameters(version), splits.arrays())
    if step.search:
        context.storage.write(addresses.SplitGraph(step.graph + 1), splits.arrays())
