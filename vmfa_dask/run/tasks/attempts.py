"""Tasks that make the best of several attempts the start of a run. May import: run."""

from __future__ import annotations

from vmfa_dask import addresses
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.stages import Stage, StageStorage
from vmfa_dask.run.start import Start, write_given_start
from vmfa_dask.run.step import Step


def take_parameters(context: RunContext, stage: Stage, step: Step) -> None:
    """Write version 0 of the run: parameters and neighbours of an attempt, and its survey of the rows.

    A component without rows counts as one row, so that the run itself decides whether to drop it.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    stage : Stage
        The attempt.
    step : Step
        The pass that would follow its last one: it names its versions.
    """
    attempt = context.stage(stage)
    mixture, surveyed = attempt.mixture(step.parameters), attempt.storage.read(addresses.RowSurvey())
    start = Start(mixture.with_every_component_alive(context.plan.n_rows), attempt.graph(step.graph))
    write_given_start(context.storage, context.settings, context.plan, start, surveyed)


def take_posterior(context: RunContext, group: int, stage: Stage, step: Step) -> None:
    """Write first K_n of the rows of a group: those of the attempt.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.
    stage : Stage
        The attempt.
    step : Step
        The pass that would follow its last one: it names its versions.
    """
    components = StageStorage(context.storage, stage).read(addresses.Posterior(step.iteration, group))["components"]
    context.storage.write(addresses.Posterior(0, group), {"components": components.copy()})
