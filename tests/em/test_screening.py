"""Screening by a part of the features: the bound never falls, bytes are the same everywhere, narrow rows skip it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.em.runs import free_energies, make_context, train
from tests.samples import draw, images, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.em.packed import Screening
from vmfa_dask.em.screening import screening_of
from vmfa_dask.run import context
from vmfa_dask.run.defaults import suited_to_data
from vmfa_dask.run.settings import Settings

OPTIONS: dict[str, Any] = {
    "n_components": 16, "n_factors": 3, "neighborhood": 6, "init_params": "uniform", "n_init": 1, "max_warmup_iter": 3,
    "max_iter": 5, "tol": 0, "warmup_tol": 0, "n_groups": 3, "screening": True,
}  # fmt: skip


@pytest.mark.parametrize("search_every", [1, 3])
def test_free_energy_never_falls(search_every: int) -> None:
    rows = draw(make_mixture(12, 300, 3, spread=0.3), 700)
    numbers: dict[str, Any] = {"tol": 0, "warmup_tol": 0, "max_warmup_iter": 6, "max_iter": 12, "neighborhood": 6}
    options = {**numbers, "reg_covar": 1e-9, "precision": "float64", "search_every": search_every}
    energies, joints = [], []
    for screening in (True, False):
        training, _ = train(make_context(rows, Settings.paper(10, 3, **options, screening=screening)))
        energies.append(free_energies(training))
        joints.append(sum(record.n_joints for record in training.records))
    screened, full = energies
    assert np.all(np.diff(screened) >= -1e-12 * np.abs(screened[1:]))
    assert screened[-1] > screened[6] + 0.1
    assert screened[-1] == pytest.approx(full[-1], rel=2e-3)
    assert joints[0] < 0.9 * joints[1]


def test_bytes_are_those_of_any_executor(processes: Client) -> None:
    rows = images(500, (10, 10, 3))
    serial = fit_local(rows, threads=1, **OPTIONS)
    several = fit_local(rows, threads=3, **OPTIONS)
    two_processes = fit_distributed(rows, client=processes, **OPTIONS)
    for other in (several, two_processes):
        assert parameters(other.model) == parameters(serial.model)
        assert [r.free_energy for r in other.history] == [r.free_energy for r in serial.history]
        assert [r.n_joints for r in other.history] == [r.n_joints for r in serial.history]
    full = fit_local(rows, **{**OPTIONS, "screening": False})
    assert parameters(full.model) != parameters(serial.model)
    assert sum(r.n_joints for r in serial.history) < sum(r.n_joints for r in full.history)


def test_off_where_it_says_off(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def noted(*arguments: Any) -> Screening:
        calls.append(arguments[2])
        return screening_of(*arguments)

    monkeypatch.setattr(context, "screening_of", noted)

    def screened_passes(n_features: int, **options: Any) -> int:
        calls.clear()
        settings = Settings.paper(4, 3, max_warmup_iter=2, max_iter=1, tol=0, warmup_tol=0, **options)
        train(make_context(draw(make_mixture(4, n_features, 3), 60, dtype="float32"), settings))
        return len(calls)

    # Two passes of warm-up and one of training; the last pass evaluates kept components alone.
    assert screened_passes(256, screening=True) == 3
    assert calls == [0, 1, 2]
    assert screened_passes(255, screening=True) == 0
    assert screened_passes(256) == 0
    assert screened_passes(256, screening=True, search="exhaustive") == 0


def test_defaults() -> None:
    def suited(n_features: int, asked: dict[str, Any]) -> bool:
        return suited_to_data(Settings(800, **asked), asked, 50_000, n_features).screening

    assert [suited(d, {}) for d in (20, 1023, 1024, 3072)] == [False, False, True, True]
    assert not suited(3072, {"screening": False})
    assert not suited(3072, {"search": "exhaustive"})
    assert suited(300, {"screening": True})
    assert not Settings.paper(800).screening
    assert not Settings(800).screening
