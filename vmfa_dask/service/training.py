"""A training run from its start, or from the state that was kept of it, to the model it returns.

May import: sizes, run, apply, service.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.apply.summary import as_lines, as_table
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import Executor
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.run.state import DONE, TRAINING, RunState
from vmfa_dask.run.validation import Validation
from vmfa_dask.run.versions import read_mixture
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.service.endings import keep_latest, raise_with, what_is_left
from vmfa_dask.service.history import history_dataset
from vmfa_dask.service.options import Progress
from vmfa_dask.sizes import Sized

if TYPE_CHECKING:
    import xarray

logger = logging.getLogger("vmfa_dask")


@dataclass(frozen=True, repr=False)
class Fit(Sized):
    """The result of a fit.

    Parameters
    ----------
    model : MixtureModel
        The fitted mixture, without components that were dropped.
    history : tuple of IterationRecord
        One record per pass; the last one evaluates the returned parameters.
    converged : bool
        Whether training ended by its tolerance, not by `max_iter`.
    settings : Settings
        Of the run, defaults included.
    fell : bool
        Whether the free energy fell, which ends the training; the model is that of the pass before.
    stopped : bool
        Whether held-out rows have chosen the model of an earlier pass (`patience`).

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import fit_local
    >>> fit = fit_local(np.random.default_rng(0).normal(size=(200, 4)), n_components=2, n_factors=1)
    >>> fit.converged, fit.dropped
    (True, {})
    """

    model: MixtureModel
    history: tuple[IterationRecord, ...]
    converged: bool
    settings: Settings
    fell: bool = False
    stopped: bool = False

    @property
    def dropped(self) -> dict[int, str]:
        """Components that are not in the model: the reason, by their number in the run."""
        records: list[IterationRecord] = list(self.history)
        if self.stopped:  # the model is older than the last passes
            records = [record for record in records if record.phase == TRAINING][: self.model.mixture.version]
        return {c: f"no row kept it after iteration {record.iteration}" for record in records for c in record.dropped}

    def history_dataset(self) -> xarray.Dataset:
        """Label the history: a Dataset with a variable for each number of the records.

        Returns
        -------
        xarray.Dataset
            Over the dimension ``iteration``, with the coordinate ``phase``: ``free_energy``, ``change``, ``seconds``,
            ``n_alive``, ``n_dropped`` and the other numbers of an `IterationRecord`, with their units; and
            ``task_seconds`` over ``iteration`` and ``work``, the time that tasks took for each kind of work.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import fit_local
        >>> fit = fit_local(np.random.default_rng(0).normal(size=(200, 4)), n_components=2, n_factors=1)
        >>> history = fit.history_dataset()
        >>> bool((history.free_energy == [record.free_energy for record in fit.history]).all())
        True
        """
        dataset = history_dataset(self.history, self.settings.standardize)
        return dataset.assign_attrs(tol=self.settings.tol, converged=int(self.converged))

    def __repr__(self) -> str:
        return as_lines("Fit", self._facts())

    def _repr_html_(self) -> str:
        return as_table("Fit", self._facts())

    def _facts(self) -> dict[str, str]:
        """The course of the training and its result, in words."""
        phases = [record.phase for record in self.history]
        named = {phase: f"{phases.count(phase)} {phase}" for phase in phases}
        reason = "the free energy fell" if self.fell else f"max_iter={self.settings.max_iter}"
        reason = "held-out rows" if self.stopped else reason
        end = f"yes, tol={self.settings.tol:g}" if self.converged else f"no, {reason}"
        energy = f"{self.history[-1].free_energy:.6g} nats per row" if self.history else "none"
        facts = {
            "passes": f"{len(phases)} ({', '.join(named.values())})",
            "converged": end,
            "final free energy": energy,
            "dropped": f"{len(self.dropped)} of {self.settings.n_components} components",
        }
        return {**facts, **{f"model, {name}": fact for name, fact in self.model.facts().items()}}


def show(record: IterationRecord, progress: Progress | None) -> None:
    """Log a record, and pass it to the user's function.

    Parameters
    ----------
    record : IterationRecord
        Of a complete pass.
    progress : callable or None
        The user's function.
    """
    logger.info("%s", record.line())
    if progress is not None:
        progress(record)


def _why_it_ended(state: RunState, settings: Settings) -> str:
    passes = sum(record.phase == TRAINING for record in state.records)
    if state.stopped:
        return f"the parameters whose held-out rows have the largest free energy are returned, after {passes} passes"
    if state.converged:
        return (
            f"converged after {passes} passes of training: the gain of the free energy fell below tol={settings.tol:g}"
        )
    if state.fell:
        return _fall(state, settings)
    return f"not converged: max_iter={settings.max_iter} passes are done"


def _fall(state: RunState, settings: Settings) -> str:
    """The pass in which the free energy fell, and what helps."""
    fallen = state.records[-2]  # the last one evaluates the parameters that are returned
    before = next(record for record in reversed(state.records[:-2]) if record.phase == TRAINING)
    remedy = "precision='float64' or a larger reg_covar" if settings.precision == "float32" else "a larger reg_covar"
    return (
        f"not converged: the free energy fell from {before.free_energy:.6g} to {fallen.free_energy:.6g} per row in "
        f"pass {fallen.iteration}, which only rounding can do; the parameters of pass {before.iteration} are returned. "
        f"{remedy} avoids it"
    )


def train(
    executor: Executor,
    start: Start | None,
    feature_shape: tuple[int, ...],
    report: Progress,
    kept: KeptRun | None,
    observer: Observer,
    validation: Validation | None = None,
    on_state: Callable[[RunState], None] = lambda state: None,
) -> Fit:
    """Train; whatever ends the training, the last complete pass is kept.

    Called by the functions that users call: warnings point one frame above them.

    Parameters
    ----------
    executor : Executor
        Who runs the tasks.
    start : Start or None
        What training begins with; None for seeds, or for the state of the kept run.
    feature_shape : tuple of int
        Shape of one row.
    report : callable
        Called with the record of each pass.
    kept : KeptRun or None
        Where the run is kept, if it is.
    observer : Observer
        Told of what the run does.
    validation : Validation, optional
        Rows that are held out.
    on_state : callable, optional
        Called with the state after each pass, once it is kept.

    Returns
    -------
    Fit
        The model, and how the training went.

    Raises
    ------
    SchedulerLost
        When the scheduler went away: what was lost, the last complete pass, and how to resume.
    KeyboardInterrupt, Exception
        What else ended the run, with the same sentence, as its message or a note.
    """
    settings = executor.settings

    def tell(record: IterationRecord) -> None:
        report(record)
        if kept is not None:
            kept.check_stop(record)

    def note(state: RunState) -> None:
        if state.phase == DONE and executor.shares_memory:  # before the model is read
            executor.results([executor.submit("release", 0, RunContext.release)])
        if kept is not None:
            kept.keep(state)
        on_state(state)

    training, begin = Training(executor, tell, note, observer, validation), time.monotonic()
    last_state = kept.attach(executor.storage) if kept else None
    try:
        state = training.run(start, last_state)
        # Read here, not in a task: results of tasks pass through the scheduler.
        run = (executor.storage, settings, executor.plan)
        mixture = read_mixture(*run, feature_shape, state.parameters, alive=True)
    except BaseException as error:
        failure = keep_latest(kept) if kept is not None else None
        raise_with(error, what_is_left(training.last_record, time.monotonic() - begin, kept, failure))
    logger.info("%s", _why_it_ended(state, settings))
    if state.fell and not state.stopped:
        warnings.warn(_fall(state, settings), stacklevel=3)
    if state.n_distinct_seeds < settings.n_components:
        warnings.warn(
            f"only {state.n_distinct_seeds} of n_components={settings.n_components} seeds are distinct rows: "
            "the data has fewer distinct rows than components, or nearly so",
            stacklevel=3,
        )
    model_type = ModelType(settings.covariance_type, settings.noise, settings.learn_weights)
    model = MixtureModel.of(mixture, model_type)
    return Fit(model, state.records, state.converged, settings, state.fell, state.stopped)
