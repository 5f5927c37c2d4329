"""S15: a start that does not fit is refused before anything is written; which start a run has is part of what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, make_start, parameters, write_store
from vmfa_dask import Mixture, MixtureModel, NeighborGraph, Start, fit_distributed, fit_local
from vmfa_dask.service.inputs import describe_start

ROWS = draw(make_mixture(4, 6, 2), 300, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 4, "n_factors": 2, "n_groups": 2, "max_warmup_iter": 1, "max_iter": 2, "tol": 0.0,
    "truncation": 2, "neighborhood": 3,
}  # fmt: skip
GOOD = make_start(make_mixture(4, 6, 2, seed=3, dtype="float32"), 300, 2, 3)

WRONG: dict[str, tuple[Start | Mixture, str]] = {
    "narrower": (make_mixture(4, 5, 2), r"start.mixture: it is for rows of shape \(5,\), .* shape \(6,\)"),
    "wider": (make_mixture(4, 7, 2), r"start.mixture: it is for rows of shape \(7,\), .* shape \(6,\)"),
    "fewer components": (make_mixture(3, 6, 2), "start.mixture: n_components is 3, the run has n_components=4"),
    "more factors": (make_mixture(4, 6, 3), "start.mixture: n_factors is 3, the run has n_factors=2"),
    "kept components of other rows": (replace(GOOD, components=GOOD.components[:-1]), "start.components: shape"),  # type: ignore[index]
    "other graph": (
        replace(GOOD, graph=NeighborGraph(np.arange(4, dtype=np.int32)[:, None])),
        "start.graph: shape",
    ),
}


@pytest.mark.parametrize("where", ["local", "distributed", "detached"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_start_of_other_sizes_leaves_no_trace(
    tmp_path: Path, in_process: Client, where: str, wrong: tuple[Start | Mixture, str]
) -> None:
    store, run = write_store(tmp_path / "x.zarr", ROWS, 100), tmp_path / "run"
    start, message = wrong
    fits = {
        "local": fit_local,
        "distributed": partial(fit_distributed, client=in_process),
        "detached": partial(fit_distributed, client=in_process, detach=True),
    }
    with pytest.raises(ValueError, match=message):
        fits[where](store, **OPTIONS, run=run, start=start)
    assert not run.exists()
    right = fit_local(store, **OPTIONS, run=run, start=GOOD)
    assert parameters(right.model) == parameters(fit_local(store, **OPTIONS, start=GOOD).model)


@pytest.mark.parametrize("shared", [True, False])
def test_whatever_ends_a_run_before_its_first_state_leaves_the_folder_to_another(tmp_path: Path, shared: bool) -> None:
    """Here a start of another type, which is found when it is written; a narrower error must not spoil the folder."""
    run = tmp_path / "run"
    refused = {"noise": "shared"} if shared else {"covariance_type": "isotropic", "n_factors": 0, "standardize": False}
    start = GOOD if shared else Start(make_mixture(4, 6, 0))
    with pytest.raises(ValueError, match=r"start\.mixture: noise_variances differ"):
        fit_local(ROWS, **{**OPTIONS, **refused}, run=run, start=start)
    fit = fit_local(ROWS, **OPTIONS, run=run)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_a_run_that_was_killed_before_its_first_state_may_become_another(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_local(ROWS, **OPTIONS, run=run, start=GOOD)
    (run / "state.json").unlink()  # versions of the other run are there
    fit = fit_local(ROWS, **OPTIONS, run=run, random_state=5)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS, random_state=5).model)


def other(**changes: Any) -> Start:
    return replace(GOOD, mixture=replace(GOOD.mixture, **changes))


OTHERS: dict[str, Start | Mixture | None] = {
    "none": None,
    "parameters alone": GOOD.mixture,
    "means": other(means=GOOD.mixture.means + np.float32(1e-3)),
    "weights": other(weights=GOOD.mixture.weights[::-1].copy()),
    "loadings": other(loadings=-GOOD.mixture.loadings),
    "noise": other(noise_variances=GOOD.mixture.noise_variances * 2),
    "offset": other(offset=np.ones(6)),
    "graph": replace(GOOD, graph=None),
    "kept components": replace(GOOD, components=GOOD.components[::-1].copy()),  # type: ignore[index]
}


@pytest.mark.parametrize("start", OTHERS.values(), ids=list(OTHERS))
def test_another_start_is_another_run(tmp_path: Path, start: Start | Mixture | None) -> None:
    run = tmp_path / "run"
    fit_local(ROWS, **OPTIONS, run=run, start=GOOD)
    with pytest.raises(ValueError, match=r"another run: it was begun with a(nother)? start"):
        fit_local(ROWS, **OPTIONS, run=run, start=start)


def test_a_start_is_refused_where_seeds_were_drawn(tmp_path: Path) -> None:
    fit_local(ROWS, **OPTIONS, run=tmp_path / "run")
    with pytest.raises(ValueError, match="another run: it was begun from seeds"):
        fit_local(ROWS, **OPTIONS, run=tmp_path / "run", start=GOOD)


def test_the_same_numbers_are_the_same_start(tmp_path: Path) -> None:
    mixture, run = replace(GOOD.mixture, weights=np.full(4, 0.25)), tmp_path / "run"  # a model scales them to sum 1
    fit = fit_local(ROWS, **OPTIONS, run=run, start=mixture)
    MixtureModel.of(mixture).save(tmp_path / "model")
    same = [
        Start(mixture),
        MixtureModel.of(mixture),
        MixtureModel.load(tmp_path / "model"),
        replace(mixture, means=mixture.means.astype(np.float64)),
        replace(mixture, means=np.asfortranarray(mixture.means)),
    ]
    for start in same:
        again = fit_local(ROWS, **OPTIONS, run=run, start=start)
        assert parameters(again.model) == parameters(fit.model)


def test_the_driver_of_a_detached_run_knows_its_start(tmp_path: Path, in_process: Client) -> None:
    store, run = write_store(tmp_path / "x.zarr", ROWS, 100), tmp_path / "run"
    detached = fit_distributed(store, **OPTIONS, run=run, start=GOOD, client=in_process, detach=True)
    assert parameters(detached.result(60).model) == parameters(fit_local(store, **OPTIONS, start=GOOD).model)
    in_process.unpublish_dataset(f"vmfa-dask:{run}")
    assert json.loads((run / "run.json").read_text())["start"] == describe_start(GOOD)
    fit_local(store, **OPTIONS, run=run, start=GOOD)
    with pytest.raises(ValueError, match="begun with a start, this call has none"):
        fit_local(store, **OPTIONS, run=run)


@pytest.mark.parametrize("start", [np.zeros((4, 6)), "model.zarr", 3], ids=str)
def test_what_is_no_start_is_refused_by_name(start: Any) -> None:
    with pytest.raises(TypeError, match=r"start: found .* expected a model, a Mixture or a Start"):
        fit_local(ROWS, **OPTIONS, start=start)
