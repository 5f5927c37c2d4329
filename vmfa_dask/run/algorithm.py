"""The complete algorithm (paper, Algorithm 2): initialise, warm up, train. Start reading here.

A pass as tasks is `run/passes.py`, when a phase ends `run/state.py`; E-step and M-step are `em/e_step.py` and
`em/m_step.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from vmfa_dask.addresses import PARAMETERS, POSTERIOR
from vmfa_dask.run.executor import Executor
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.packed_versions import discard_packed, unpacked_blocks
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.start import Start
from vmfa_dask.run.starts.cells import restore_order
from vmfa_dask.run.starts.initialization import complete_start, initialize
from vmfa_dask.run.state import DONE, TRAINING, RunState
from vmfa_dask.run.tasks.m_step import BlockReport, share_packed
from vmfa_dask.run.validation import Validation


class Training:
    """A run of variational EM.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.
    on_record : callable, optional
        Called with the record of each pass, after `on_state`: a pass that is reported is never lost.
    on_state : callable, optional
        Called with the state after each pass, before the versions that it no longer needs are discarded.
    observer : Observer, optional
        Told what begins and what is complete, for a display.
    validation : Validation, optional
        Held-out rows that are evaluated on the way.
    """

    def __init__(
        self,
        executor: Executor,
        on_record: Callable[[IterationRecord], None] = lambda record: None,
        on_state: Callable[[RunState], None] = lambda state: None,
        observer: Observer | None = None,
        validation: Validation | None = None,
    ) -> None:
        self.executor, self.on_record, self.on_state = executor, on_record, on_state
        self.observer, self.validation = observer or Observer(), validation
        self.last_record: IterationRecord | None = None

    def run(self, start: Start | None = None, state: RunState | None = None) -> RunState:
        """Initialise (or resume from `state`), warm up, train, each until the free energy has converged, then evaluate.

        Parameters
        ----------
        start : Start, optional
            First parameters in place of seeds.
        state : RunState, optional
            A state to resume from.

        Returns
        -------
        RunState
            The state after the last pass; ``state.parameters`` is the version of the fitted parameters.
        """
        self.observer.start_begins(len(self.executor.plan.groups))
        if self.validation is not None and (state is None or state.phase != DONE):
            self.validation.prepare(self.executor)
        if state is None:
            state = RunState.first(self.executor.settings, initialize(self.executor, start))
            self.on_state(state)
        else:
            complete_start(self.executor)
            if state.phase != DONE:
                restore_order(self.executor)
        self.last_record = state.records[-1] if state.records else None
        while state.phase != DONE:
            state = self.advance(state)
        return state

    def advance(self, state: RunState) -> RunState:
        """One pass: variational E-step, neighbour update and, in training, the M-step.

        Parameters
        ----------
        state : RunState
            Where the run stands.

        Returns
        -------
        RunState
            Where it stands afterwards.
        """
        self.observer.pass_begins(state, self.executor.settings, len(self.executor.plan.groups))
        begin = time.perf_counter()
        self._share_packed(state.parameters)
        reports = run_pass(self.executor, state.step(self.executor.settings))
        record = self._validated(state, self._record(state, reports, time.perf_counter() - begin))
        patience = self.validation.patience if self.validation is not None else None
        following = state.after(record, self.executor.settings, patience)
        self.on_state(following)
        self.last_record = record
        self._forget(state, following)
        self.observer.pass_ends(following)
        self.on_record(record)
        return following

    def _share_packed(self, version: int) -> None:
        """Have what the M-steps have not packed packed for all processes, where they share arrays."""
        executor = self.executor
        blocks = unpacked_blocks(executor.storage, executor.plan, version)
        executor.results([executor.submit("pack", block, share_packed, block, version) for block in blocks])

    def _validated(self, state: RunState, record: IterationRecord) -> IterationRecord:
        """The record of a pass with what held-out rows say of its parameters, which processes still have in memory."""
        if self.validation is None or not self.validation.is_due(state):
            return record
        begin = time.perf_counter()
        value = self.validation.evaluate(self.executor, state.parameters)
        seconds = {**record.seconds_per_phase, "validation": time.perf_counter() - begin}
        return replace(record, validation=value, seconds_per_phase=seconds)

    def _forget(self, old: RunState, new: RunState) -> None:
        """Let the storage drop the versions that the new state has replaced."""
        # The last M-step has made a version that is not needed if an older one turns out to be better.
        made = [(PARAMETERS, old.parameters + 1)] if old.phase == TRAINING else []
        for kind, version in sorted({*old.needed(), *made} - set(new.needed())):
            self.executor.storage.discard(kind, version)
        for version in {old.parameters, *(version for _, version in made)} - {new.parameters}:
            discard_packed(self.executor.storage, version)
        if new.phase == DONE:  # posteriors of the evaluation: nothing goes on from them
            self.executor.storage.discard(POSTERIOR, new.iteration)

    def _record(self, state: RunState, reports: list[BlockReport], seconds: float) -> IterationRecord:
        tally = reports[0].tally
        free_energy = tally.free_energy / tally.n_rows
        before = state.records[-1] if state.records else None
        settings = self.executor.settings
        change = settings.gain(free_energy, before.free_energy, reports[0].n_features) if before else math.nan
        updates = [report.update for report in reports if report.update is not None]
        alive = state.n_alive(settings)
        lost = tuple(c for update in updates for c in update.dropped)
        split = lost if settings.empty_components == "split" else ()
        return IterationRecord(
            len(state.records),
            state.phase,
            free_energy,
            change,
            tally.n_joints / tally.n_rows,
            tally.n_joints,
            tally.n_rows / seconds,
            seconds,
            {**tally.seconds, "update": sum(report.seconds for report in reports)},
            sum(update.n_alive for update in updates) + len(split) if updates else alive,
            () if split else lost,
            sum(update.n_rows for update in updates) if updates else None,
            split,
            tally.bytes_read,
        )
