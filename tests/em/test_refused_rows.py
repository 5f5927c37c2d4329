"""Rows that an E-step cannot evaluate are named, wherever in a group they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.em.runs import make_context
from tests.samples import draw, make_mixture
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_checks import BeyondPrecision
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start, write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step

MIXTURE = make_mixture(3, 4, 2)
SETTINGS = Settings(3, 2, standardize=False)
STEP = Step(iteration=0, parameters=0, graph=0, search=True, update=False)
ROW = 137  # in the second group, and not in its first row block


def begun(value: float, noise: float = 1.0) -> RunContext:
    """Two groups of row blocks of 16 rows, begun from a given start; one row holds `value` in feature 2."""
    rows = draw(MIXTURE, 200).astype(np.float32)
    rows[ROW, 2] = value
    context = make_context(rows, SETTINGS, n_groups=2)
    context.plan = replace(context.plan, block_rows=16)
    start = Start(replace(MIXTURE, noise_variances=noise * MIXTURE.noise_variances))
    write_given_start(context.storage, SETTINGS, context.plan, start)
    return context


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    with pytest.raises(ValueError, match=rf"row {ROW}, feature 2: found {value}, expected a finite number"):
        run_e_step(begun(value), 1, STEP)


def test_rows_without_a_finite_density() -> None:
    with pytest.raises(BeyondPrecision, match=rf"row {ROW}, feature 2: found 1e\+17; no component gives this row"):
        run_e_step(begun(1e17, noise=1e-12), 1, STEP)


def test_other_groups_are_not_affected() -> None:
    assert run_e_step(begun(np.nan), 0, STEP).tally.n_rows == 100
