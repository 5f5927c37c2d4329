"""Where a run stands between two passes: all that is needed, with the stored versions, to go on from there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from vmfa_dask.addresses import GRAPH, PARAMETERS, POSTERIOR, START
from vmfa_dask.run.records import PHASES, IterationRecord, check_fields
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.step import Step

# Changes of the free energy below this, in the units of `tol`, may come from rounding alone.
_ROUNDING = {"float32": 1e-5, "float64": 1e-9}
WARM_UP, TRAINING, FINAL, DONE = PHASES


@dataclass(frozen=True)
class RunState:
    """The next pass of a run and what came before.

    Parameters
    ----------
    phase : str
        Phase of the next pass; "done" after the last one.
    iteration, parameters, graph : int
        Versions that the next pass uses, of posteriors, parameters and neighbours.
    passes : int
        Completed passes of this phase.
    converged : bool
        Whether training ended by its tolerance.
    better : int or None
        Parameters of the last pass of training, which are returned if the next ones turn out to be worse.
    fell : bool
        Whether the free energy fell, which ended the training.
    n_distinct_seeds : int
        Distinct rows among the C seeds.
    best : int or None
        Parameters whose held-out rows have the largest free energy so far, where that decides about the run's end.
    best_validation : float or None
        That free energy, per row.
    in_vain : int
        Evaluations of held-out rows since then.
    stopped : bool
        Whether held-out rows have decided which parameters are returned.
    records : tuple of IterationRecord
        One per completed pass.
    """

    phase: str = WARM_UP
    iteration: int = 0
    parameters: int = 0
    graph: int = 0
    passes: int = 0
    converged: bool = False
    better: int | None = None
    fell: bool = False
    n_distinct_seeds: int = 0
    best: int | None = None
    best_validation: float | None = None
    in_vain: int = 0
    stopped: bool = False
    records: tuple[IterationRecord, ...] = ()

    @classmethod
    def first(cls, settings: Settings, n_distinct_seeds: int) -> RunState:
        """The state after initialisation.

        Parameters
        ----------
        settings : Settings
            The run.
        n_distinct_seeds : int
            Distinct rows among the seeds.

        Returns
        -------
        RunState
        """
        return cls(n_distinct_seeds=n_distinct_seeds)._skip_empty_phases(settings)

    def step(self, settings: Settings) -> Step:
        """The next pass.

        Parameters
        ----------
        settings : Settings
            The run.

        Returns
        -------
        Step
        """
        search, update = self.phase != FINAL and settings.search == "guided", self.phase == TRAINING
        return Step(self.iteration, self.parameters, self.graph, search, update)

    def after(self, record: IterationRecord, settings: Settings, patience: int | None = None) -> RunState:
        """The state after a pass: a gain of the free energy below the tolerance ends a phase (paper, convergence).

        EM never lowers the free energy, but rounding does once it has eaten the digits of the model. A fall that is
        larger than the tolerance is therefore no convergence: it ends the training with the parameters of the pass
        before.

        Parameters
        ----------
        record : IterationRecord
            The pass.
        settings : Settings
            The run.
        patience : int, optional
            Evaluations of held-out rows without a better one that end the training; by default they decide nothing.

        Returns
        -------
        RunState
        """
        step = self.step(settings)
        state = replace(
            self,
            iteration=self.iteration + 1,
            parameters=self.parameters + step.update,
            graph=self.graph + step.search,
            passes=self.passes + 1,
            better=self.parameters if step.update else self.better,
            records=(*self.records, record),
        )
        if patience is not None and record.validation is not None:
            state = state._judged(self.parameters, record.validation)
        tol = settings.warmup_tol if self.phase == WARM_UP else settings.tol
        if self._falls(record, settings):
            assert self.better is not None
            # The components that this pass has kept are those of the worse parameters: it is undone altogether.
            back = replace(self, parameters=self.better, better=None, fell=True, converged=False)
            state = replace(back, phase=FINAL, passes=0, records=state.records)
        elif self.phase == FINAL and state.best not in (None, self.parameters):
            state = state._back_to_best()
        elif self.phase == FINAL:
            state = replace(state, phase=DONE, passes=0, better=None)
        elif patience is not None and state.in_vain >= patience:
            state = state._back_to_best()
        elif state.passes > 1 and record.change < tol:
            converged = self.converged or self.phase == TRAINING
            state = replace(state, phase=_following(self.phase), passes=0, converged=converged)
        return state._skip_empty_phases(settings)

    def n_alive(self, settings: Settings) -> int:
        """Components with positive weight in the parameters of the next pass.

        Parameters
        ----------
        settings : Settings
            The run.

        Returns
        -------
        int
        """
        records = self.records
        if self.stopped:  # each pass of training has made a version; components that later ones dropped are there again
            records = tuple(record for record in records if record.phase == TRAINING)[: self.parameters]
        return records[-1].n_alive if records else settings.n_components

    def _judged(self, parameters: int, validation: float) -> RunState:
        """The state after an evaluation of held-out rows under a version of the parameters."""
        if self.best_validation is None or validation > self.best_validation:
            return replace(self, best=parameters, best_validation=validation, in_vain=0)
        # A version that is evaluated again is no worse than itself.
        return replace(self, in_vain=self.in_vain + (parameters != self.best))

    def _back_to_best(self) -> RunState:
        """The evaluation of the parameters that suit the held-out rows best; later ones are given up."""
        assert self.best is not None
        return replace(self, phase=FINAL, passes=0, parameters=self.best, better=None, stopped=True)

    def _falls(self, record: IterationRecord, settings: Settings) -> bool:
        """Whether the parameters of this pass are worse than those of the pass before by more than rounding.

        A component that was split in between lowers the free energy for a pass or two, and is meant to.
        """
        split = any(before.split for before in self.records[-2:])
        smallest = max(settings.tol, _ROUNDING[settings.precision])
        return self.better is not None and not split and record.change < -smallest

    @property
    def posterior(self) -> int:
        """Version of the posteriors that going on from here reads; a finished run keeps those before its evaluation."""
        return self.iteration - 1 if self.phase == DONE else self.iteration

    def needed(self) -> list[tuple[str, int]]:
        """Everything that the storage must hold to resume from here.

        Returns
        -------
        list of (str, int)
            Kind and version.
        """
        parameters = {version for version in (self.parameters, self.better, self.best) if version is not None}
        versions = [(PARAMETERS, version) for version in sorted(parameters)]
        return [(START, 0), *versions, (GRAPH, self.graph), (POSTERIOR, self.posterior)]

    def reopened(self, settings: Settings) -> RunState:
        """The state before the final evaluation, if new settings ask for more training of a finished run.

        Parameters
        ----------
        settings : Settings
            The new settings.

        Returns
        -------
        RunState
            The same state where there is nothing more to train.
        """
        training = [record for record in self.records if record.phase == TRAINING]
        ended = len(training) > 1 and training[-1].change < settings.tol
        # Held-out rows have judged these parameters as the last ones: more passes would have been judged otherwise.
        judged = self.best is not None
        if self.phase != DONE or ended or self.fell or judged or len(training) >= settings.max_iter:
            return self
        return replace(
            self,
            phase=TRAINING,
            iteration=self.iteration - 1,
            passes=len(training),
            converged=False,
            records=self.records[:-1],
        )

    def _skip_empty_phases(self, settings: Settings) -> RunState:
        """Leave a phase whose passes are used up."""
        state = self
        for phase, most in ((WARM_UP, settings.warmup_passes), (TRAINING, settings.max_iter)):
            if state.phase == phase and state.passes >= most:
                state = replace(state, phase=_following(phase), passes=0)
        return state

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file; the first change, which is NaN, becomes None, as JSON has no NaN.

        Returns
        -------
        dict of str to object
        """
        records = [{**asdict(r), "change": None if math.isnan(r.change) else r.change} for r in self.records]
        return {**asdict(replace(self, records=())), "records": records}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunState:
        """The state that `as_dict` wrote.

        Parameters
        ----------
        values : dict
            What the JSON holds.

        Returns
        -------
        RunState

        Raises
        ------
        ValueError
            Naming a field of another type.
        """
        known = check_fields(cls, values, "the state")
        records = [IterationRecord.from_json(record, k) for k, record in enumerate(known.get("records", []))]
        return cls(**{**known, "records": tuple(records)})


def _following(phase: str) -> str:
    return PHASES[PHASES.index(phase) + 1]
