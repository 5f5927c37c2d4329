"""Runs of the algorithm in this process, with their context at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.run.state import RunState
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Mixture


def make_context(rows: NDArray[Any], settings: Settings, n_groups: int | None = None, n_threads: int = 1) -> RunContext:
    """A run in memory."""
    source = ArrayRows(rows)
    return RunContext(source, settings, make_plan(source, settings, n_groups), MemoryStorage(), Cores(n_threads))


def train(context: RunContext, start: Start | None = None) -> tuple[RunState, Mixture]:
    """A whole run: its last state, with the records, and its last parameters."""
    state = Training(SerialExecutor(context)).run(start)
    return state, context.mixture(state.parameters)


def free_energies(state: RunState) -> NDArray[np.float64]:
    """Free energy per row of every pass."""
    return np.array([record.free_energy for record in state.records])


def assert_same_parameters(found: Mixture, known: Any, rounding: float) -> None:
    """Parameters equal to `rounding`, relative to the largest number of their kind."""
    for name in ("weights", "means", "loadings", "noise_variances"):
        expected = np.asarray(getattr(known, name), np.float64)
        scale = np.abs(expected).max(initial=0)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=0, atol=rounding * scale, err_msg=name)
