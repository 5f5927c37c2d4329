"""S14: a fall of the free energy is named, is no convergence, and the better parameters are returned."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.em.runs import make_context
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.em import m_step
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState

ROWS = draw(make_mixture(4, 6, 1), 400, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 1, "tol": 0.0, "max_iter": 12, "threads": 1}
OPTIONS |= {"max_warmup_iter": 2, "init_params": "afkmc2", "n_groups": 1}


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compiling kernels calls the M-step, too."""
    fit_local(ROWS, **{**OPTIONS, "max_iter": 1})



def spoil(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The M-step after pass `at` of training writes noise variances that are a million times too large."""
    maximize, calls = m_step.maximize, []

    def spoiled(*arguments: Any) -> None:
        maximize(*arguments)
        calls.append(None)
        if len(calls) == at:
            arguments[-1].noise_variances[:] *= 1e6

    monkeypatch.setattr(m_step, "maximize", spoiled)


@pytest.mark.parametrize("at", [1, 3, 12])
def test_a_fall_is_no_convergence(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    good = fit_local(ROWS, **{**OPTIONS, "max_iter": at - 1}) if at > 1 else None
    spoil(monkeypatch, at)
    with pytest.warns(UserWarning, match=r"free energy fell from .* to .* in pass"):
        fit = fit_local(ROWS, **OPTIONS)
    assert not fit.converged
    energies = [record.free_energy for record in fit.history]
    training = [record.free_energy for record in fit.history if record.phase == "training"]
    assert energies[-1] >= max(training) - 1e-6  # what is returned is what the better pass has evaluated
    if good is not None:
        assert parameters(fit.model) == parameters(good.model)


def test_a_run_that_is_kept_returns_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Interrupted in every pass before the fall, and gone on with."""
    with monkeypatch.context() as patch:
        spoil(patch, 4)
        with pytest.warns(UserWarning, match="fell"):
            whole = fit_local(ROWS, **OPTIONS)
    for ended in (1, 2, 3):
        run = str(tmp_path / f"run-{ended}")
        fit_local(ROWS, **{**OPTIONS, "max_iter": ended}, run=run)
        with monkeypatch.context() as patch:
            spoil(patch, 4 - ended)
            with pytest.warns(UserWarning, match="fell"):
                resumed = fit_local(ROWS, **OPTIONS, run=run)
        assert parameters(resumed.model) == parameters(whole.model)
        with pytest.warns(UserWarning, match="fell"):
            again = fit_local(ROWS, **OPTIONS, run=run)  # done is done: it does not train from there again
        assert parameters(again.model) == parameters(whole.model)


def test_the_state_that_is_stored_knows_the_better_parameters() -> None:
    context = make_context(ROWS, Settings(4, 1, tol=0.0, max_iter=12))
    states: list[RunState] = []
    Training(SerialExecutor(context), on_state=states.append).run()
    for state in states:
        assert RunState.from_dict(state.as_dict()) == state or any(np.isnan(r.change) for r in state.records)
    within = [state for state in states if state.phase == "training" and state.passes > 0]
    assert all(state.better == state.parameters - 1 for state in within)
    assert states[-1].better is None


@pytest.mark.long
def test_more_features_than_rows_in_single_precision(tmp_path: Path, in_process: Client) -> None:
    """The example that was reported: 60 rows of 12,288 features under 59 factors."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 8)) @ rng.normal(size=(8, 12_288)) * 20 + rng.normal(size=(60, 12_288))
    path = write_store(tmp_path / "x.zarr", rows.astype(np.float32), 30)
    fit = fit_distributed(path, n_components=1, n_factors=59, max_iter=30, client=in_process)
    energies = [record.free_energy for record in fit.history if record.phase == "training"]
    fell = any(b < a - 1e-5 * 12_288 for a, b in pairwise(energies))
    assert not (fell and fit.converged)
    assert fit.history[-1].free_energy >= max(energies) - 1e-4 * 12_288
