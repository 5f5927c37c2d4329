"""Held-out curves: each record is that of the fit it names, and the true size is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.samples import make_mixture, write_store
from vmfa_dask import MixtureModel, fit_local, held_out_curve


@pytest.mark.slow
def test_records_are_those_of_single_fits(tmp_path: Path) -> None:
    truth = MixtureModel.of(make_mixture(3, 6, 1, dtype="float32"))
    train, test = (truth.sample(1500, random_state=seed)[0].astype(np.float32) for seed in (0, 1))
    models: list[MixtureModel] = []
    sizes = {"n_components": [1, 3, 6], "n_factors": [1, 2]}
    curve = held_out_curve(
        train, test, **sizes, run=tmp_path / "curve", max_iter=40, report=lambda record, model: models.append(model)
    )
    assert [(record.n_factors, record.n_components) for record in curve] == [(h, c) for h in (1, 2) for c in (1, 3, 6)]
    assert max(curve[:3], key=lambda record: record.score).n_components == 3
    fit = fit_local(train, n_components=3, n_factors=1, max_iter=40)
    assert models[1] == fit.model
    assert curve[1].score == fit.model.score(test)
    assert (curve[1].free_energy, curve[1].n_passes) == (fit.history[-1].free_energy, len(fit.history))
    assert curve[1].n_parameters == fit.model.n_parameters
    assert len(list((tmp_path / "curve").iterdir())) == 6


def test_on_a_cluster(tmp_path: Path, in_process: Client) -> None:
    truth = MixtureModel.of(make_mixture(3, 6, 1, dtype="float32"))
    store = write_store(tmp_path / "rows.zarr", truth.sample(600)[0].astype(np.float32), 200)
    here, there = (
        held_out_curve(store, store, n_components=[2], n_factors=[1], max_iter=3, client=client)[0]
        for client in (None, in_process)
    )
    assert (here.score, here.free_energy) == (there.score, there.free_energy)
