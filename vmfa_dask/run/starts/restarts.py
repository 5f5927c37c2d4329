"""Several initialisations of a run: each is trained for some passes as a stage, and the best one goes on.

May import: values, em.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from vmfa_dask import addresses
from vmfa_dask.run.executor import Executor, StageExecutor
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.stages import Stage
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.attempts import take_parameters, take_posterior

logger = logging.getLogger(__name__)

# Passes of a short run: enough of warm-up for most rows to find their components, and of training to tell starts apart.
_WARMUP_PASSES, _TRAINING_PASSES = 4, 4
# Between the seeds of attempts, so that those of neighbouring random states differ.
_SEED_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Attempt:
    """A short run from one initialisation.

    Parameters
    ----------
    executor : StageExecutor
        Its stage.
    step : Step
        The pass that would follow its last one: it names its versions.
    free_energy : float
        Per row, in nats.
    n_distinct : int
        Distinct seeds.
    """

    executor: StageExecutor
    step: Step
    free_energy: float
    n_distinct: int


def start_from_best(executor: Executor, initialize: Callable[[Executor], int]) -> int:
    """Write version 0 of a run from the best of its attempts.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.
    initialize : callable
        Writes version 0 of an attempt and returns its number of distinct seeds.

    Returns
    -------
    int
        Distinct seeds of the best attempt.
    """
    best: Attempt | None = None
    for number in range(executor.settings.n_init):
        attempt = _try(executor, number, initialize)
        logger.info("attempt %d: free energy %.4f per row", number, attempt.free_energy)
        worse = attempt if best is not None and attempt.free_energy <= best.free_energy else best
        if worse is not attempt:
            best = attempt
        if worse is not None:
            _discard(worse)
    assert best is not None
    stage, step, groups = best.executor.stage, best.step, range(len(executor.plan.groups))
    executor.results([executor.submit("seed-parameters", 0, take_parameters, stage, step)])
    if executor.settings.search == "guided":
        executor.results([executor.submit("seed-posteriors", g, take_posterior, g, stage, step) for g in groups])
    _discard(best)
    return best.n_distinct


def _settings_of(settings: Settings, number: int) -> Settings:
    seed = (settings.random_state + number * _SEED_STEP) % 2**63
    return replace(settings, random_state=seed, n_init=1, empty_components="drop")


def _try(executor: Executor, number: int, initialize: Callable[[Executor], int]) -> Attempt:
    """One initialisation and a short run from it."""
    stage = StageExecutor(executor, Stage(f"attempt-{number}", _settings_of(executor.settings, number)))
    n_distinct = initialize(stage)
    guided = stage.settings.search == "guided"
    warmup = min(_WARMUP_PASSES, stage.settings.warmup_passes)
    step, free_energy = Step(0, 0, 0, guided, warmup == 0), 0.0
    for passes in range(1, warmup + _TRAINING_PASSES + 1):
        tally = run_pass(stage, step)[0].tally
        free_energy = tally.free_energy / tally.n_rows
        done, update = step, passes >= warmup
        step = Step(done.iteration + 1, done.parameters + done.update, done.graph + done.search, guided, update)
        for kind, before, now in (
            (addresses.PARAMETERS, done.parameters, step.parameters),
            (addresses.GRAPH, done.graph, step.graph),
            (addresses.POSTERIOR, done.iteration, step.iteration),
        ):
            if before != now:
                stage.storage.discard(kind, before)
    return Attempt(stage, step, free_energy, n_distinct)


def _discard(attempt: Attempt) -> None:
    step = attempt.step
    versions = {
        addresses.START: 0,
        addresses.PARAMETERS: step.parameters,
        addresses.GRAPH: step.graph,
        addresses.POSTERIOR: step.iteration,
    }
    for kind, version in versions.items():
        attempt.executor.storage.discard(kind, version)
