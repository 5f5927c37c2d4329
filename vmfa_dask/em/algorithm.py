"""The complete algorithm (paper, Algorithm 2): initialise, warm up, train. Start reading here.

The E-step is `e_step.py`, the M-step `m_step.py`; how a pass is spread over tasks is `iteration.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from vmfa_dask.em.context import Step
from vmfa_dask.em.executor import Executor
from vmfa_dask.em.initialization import initialize
from vmfa_dask.em.iteration import run_pass
from vmfa_dask.em.records import IterationRecord
from vmfa_dask.em.seeding import Start
from vmfa_dask.em.storage import GRAPH, PARAMETERS, POSTERIOR
from vmfa_dask.em.tasks import BlockReport


class Training:
    """A run of variational EM; `records` grows by one per pass over the rows."""

    def __init__(self, executor: Executor, on_record: Callable[[IterationRecord], None] = lambda record: None) -> None:
        self.executor, self.on_record = executor, on_record
        self.records: list[IterationRecord] = []
        self.step = Step(iteration=0, parameters=0, graph=0, search=True, update=False)
        self.n_distinct_seeds = 0
        self.converged = False

    def run(self, start: Start | None = None) -> None:
        """Initialise, then warm up, then train, each until the free energy has converged; then evaluate once more."""
        self.n_distinct_seeds = initialize(self.executor, start)
        settings = self.executor.settings
        self._repeat("warm-up", settings.max_warmup_iter, settings.warmup_tol)
        self.converged = self._repeat("training", settings.max_iter, settings.tol)
        self._advance("final", search=False, update=False)

    def _repeat(self, phase: str, most: int, tol: float) -> bool:
        """Passes of one phase until convergence: (F(t) − F(t−1)) / |F(t−1)| < tol."""
        for k in range(most):
            self._advance(phase, search=True, update=phase == "training")
            if k > 0 and self.records[-1].change < tol:
                return True
        return False

    def _advance(self, phase: str, search: bool, update: bool) -> None:
        """One pass: variational E-step, neighbour update and, in training, the M-step."""
        old = self.step
        step = Step(old.iteration, old.parameters, old.graph, search, update)
        begin = time.perf_counter()
        reports = run_pass(self.executor, step)
        record = self._record(phase, reports, time.perf_counter() - begin)
        self.records.append(record)
        self.step = Step(step.iteration + 1, step.parameters + update, step.graph + search, search, update)
        self.executor.discard(POSTERIOR, step.iteration)
        if search:
            self.executor.discard(GRAPH, step.graph)
        if update:
            self.executor.discard(PARAMETERS, step.parameters)
        self.on_record(record)

    def _record(self, phase: str, reports: list[BlockReport], seconds: float) -> IterationRecord:
        tally = reports[0].tally
        free_energy = tally.free_energy / tally.n_rows
        before = self.records[-1] if self.records else None
        change = (free_energy - before.free_energy) / max(abs(before.free_energy), 1e-300) if before else math.nan
        updates = [report.update for report in reports if report.update is not None]
        alive = before.n_alive if before else self.executor.settings.n_components
        return IterationRecord(
            self.step.iteration,
            phase,
            free_energy,
            change,
            tally.n_joints / tally.n_rows,
            tally.n_joints,
            tally.n_rows / seconds,
            seconds,
            {**tally.seconds, "update": sum(report.seconds for report in reports)},
            sum(update.n_alive for update in updates) if updates else alive,
            tuple(c for update in updates for c in update.dropped),
        )
