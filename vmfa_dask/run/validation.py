"""Held-out rows beside a run: how often they are evaluated, and what their free energy decides. May import: run."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from vmfa_dask.run.executor import Executor
from vmfa_dask.run.held_out import HeldOutRows, ValidationRows
from vmfa_dask.run.plan import Plan, seconds_of_pass
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import FINAL, TRAINING, RunState
from vmfa_dask.run.tasks.validation import EVALUATION_BYTES, evaluate_part, set_aside

# Part of the work of the training that evaluations take, where it is not said how often they take place.
_SHARE = 0.05


@dataclass(frozen=True)
class Validation:
    """Held-out rows of a run.

    Parameters
    ----------
    source : HeldOutRows or (n, D) array
        Rows that are left out of the run's own, or others, finite and of the dtype of the training rows.
    every : int
        Passes of training from one evaluation to the next.
    patience : int or None
        Evaluations without a better one that end the training, which then returns the parameters of the best one; None
        where they decide nothing.
    """

    source: HeldOutRows | NDArray[Any]
    every: int
    patience: int | None

    @property
    def held_out(self) -> HeldOutRows | None:
        """Rows of the run's own that are left out of its training."""
        return self.source if isinstance(self.source, HeldOutRows) else None

    @property
    def n_rows(self) -> int:
        """Rows that are evaluated."""
        return self.source.n_held if isinstance(self.source, HeldOutRows) else len(self.source)

    def identity(self) -> dict[str, Any]:
        """What makes the run of another validation another run.

        Returns
        -------
        dict
            Values for JSON.
        """
        rows = None
        if not isinstance(self.source, HeldOutRows):
            rows = hashlib.sha256(self.source.tobytes()).hexdigest()[:16]
        return {"n_rows": self.n_rows, "rows": rows, "every": self.every, "patience": self.patience}

    def projected_bytes(self, rows: RowSource, plan: Plan) -> int:
        """Memory that the rows and their evaluation take in a process, at most.

        Parameters
        ----------
        rows : RowSource
            The training rows.
        plan : Plan
            Of the run.

        Returns
        -------
        int
            Bytes: the rows, what their evaluation takes, and the copy of a row block without them.
        """
        row_bytes = n_features_of(rows) * rows.dtype.itemsize
        return (self.n_rows + plan.block_rows) * row_bytes + EVALUATION_BYTES

    def is_due(self, state: RunState) -> bool:
        """Whether the parameters of the next pass are to be evaluated.

        Parameters
        ----------
        state : RunState
            Where the run stands.

        Returns
        -------
        bool
        """
        return state.phase == FINAL or (state.phase == TRAINING and state.passes % self.every == 0)

    def prepare(self, executor: Executor) -> None:
        """Put the rows where tasks find them; rows that are left out of the run's own take a pass over all rows.

        Parameters
        ----------
        executor : Executor
            Runs the tasks.

        Raises
        ------
        ValueError
            Naming a row that is not finite.
        """
        groups = range(len(executor.plan.groups))
        if isinstance(self.source, HeldOutRows):
            executor.results([executor.submit("validation-rows", g, set_aside, g) for g in groups])
            return
        n_parts = self._n_parts(executor)
        for part in range(n_parts):
            start, stop = (self.n_rows * edge // n_parts for edge in (part, part + 1))
            rows = self.source[start:stop].copy()
            executor.storage.write(ValidationRows(part), {"rows": rows})

    def evaluate(self, executor: Executor, version: int) -> float:
        """Free energy of the held-out rows, with the best C' of all components for each row.

        Parameters
        ----------
        executor : Executor
            Runs the tasks.
        version : int
            Version of the parameters.

        Returns
        -------
        float
            Nats per row.

        Raises
        ------
        RuntimeError
            If rows were lost.
        ValueError
            If no component gives a row a density that the precision of the run can hold.
        """
        parts = range(self._n_parts(executor))
        tasks = [executor.submit("validation", part, evaluate_part, part, version) for part in parts]
        sums = executor.results(tasks)
        n_rows = sum(n for _, n in sums)
        if n_rows != self.n_rows:
            raise RuntimeError(f"validation: {n_rows} rows were evaluated, expected {self.n_rows}")
        return float(math.fsum(total for total, _ in sums) / n_rows)

    def _n_parts(self, executor: Executor) -> int:
        n_groups = len(executor.plan.groups)
        return n_groups if isinstance(self.source, HeldOutRows) else min(n_groups, self.n_rows)


def automatic_interval(rows: RowSource, settings: Settings, n_held: int) -> int:
    """Passes between evaluations that take a twentieth of the work of the run.

    It follows from the sizes alone, so that the result of a run does not depend on clocks.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        The run.
    n_held : int
        Rows that are evaluated.

    Returns
    -------
    int
        At least 1.
    """
    everything = replace(settings, search="exhaustive", init_params="uniform")
    of_evaluation = seconds_of_pass(n_held, rows, everything)
    return max(1, math.ceil(of_evaluation / (_SHARE * seconds_of_pass(rows.n_rows, rows, settings))))
