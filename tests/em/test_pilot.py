"""Starts of models of few components: samples, attempts and moves, in the same bytes on every executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from sklearn.metrics import adjusted_rand_score

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.run import defaults
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.starts import pilot
from vmfa_dask.seeding.sample import sampled_rows


def blobs(n_groups: int, n_features: int, seed: int, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centers, groups = rng.normal(0, 10, (n_groups, n_features)), rng.integers(0, n_groups, n)
    return centers[groups] + rng.normal(size=(n, n_features)), groups


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n_groups", "n_features"), [(8, 12), (30, 12)])
def test_all_groups_are_found(n_groups: int, n_features: int, seed: int) -> None:
    rows, groups = blobs(n_groups, n_features, seed)
    fit = fit_local(rows, n_components=n_groups, n_factors=2, random_state=seed)
    assert fit.settings.init_params == "pilot"
    assert adjusted_rand_score(groups, fit.model.predict(rows)) > 0.99


def test_moves_find_what_seeds_have_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All seeds but two lie in one group."""
    rows, groups = blobs(6, 8, seed=1)
    inside, outside = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    seeds = np.concatenate([inside[:5], outside[:1]])
    monkeypatch.setattr(pilot, "greedy_seeds", lambda *arguments: (seeds, 6))
    fit = fit_local(rows, n_components=6, n_factors=2, n_init=1)
    assert adjusted_rand_score(groups, fit.model.predict(rows)) > 0.99
    monkeypatch.setattr(pilot, "propose_moves", lambda *arguments: [])
    stuck = fit_local(rows, n_components=6, n_factors=2, n_init=1)
    assert adjusted_rand_score(groups, stuck.model.predict(rows)) < 0.95
    assert fit.model.score(rows) > stuck.model.score(rows) + 0.5


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"covariance_type": "isotropic", "noise": "shared"},
        {"noise": "shared", "learn_weights": False},
        {"neighborhood": (5, 2, 2), "search_every": 2},
        {"search": "exhaustive", "empty_components": "split"},
        {"precision": "float64"},
        {"standardize": False, "reg_covar": 1e-3},
    ],
    ids=str,
)
def test_every_executor_gives_the_same_bytes(options: dict[str, Any], processes: Client, tmp_path: Path) -> None:
    rows = draw(make_mixture(7, 6, 1, spread=6.0), 900, dtype="float32")
    path = write_store(tmp_path / "x.zarr", rows, 90)
    numbers: dict[str, Any] = {"n_components": 7, "n_groups": 5, "init_params": "pilot", "max_iter": 6, **options}
    serial = fit_local(path, threads=1, **numbers)
    assert parameters(fit_local(path, threads=2, **numbers).model) == parameters(serial.model)
    assert parameters(fit_distributed(path, client=processes, **numbers).model) == parameters(serial.model)
    run = str(tmp_path / "run")
    fit_local(path, **{**numbers, "max_iter": 2}, run=run)
    assert parameters(fit_local(path, **numbers, run=run).model) == parameters(serial.model)


def test_a_sample_stands_for_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "_FEWEST_ROWS", 300)
    monkeypatch.setattr(defaults, "_ROWS_PER_COMPONENT", 50)
    rows, groups = blobs(6, 8, seed=2)
    cuts = [fit_local(rows, n_components=6, n_factors=2, n_groups=n) for n in (1, 4)]
    for fit in cuts:
        assert adjusted_rand_score(groups, fit.model.predict(rows)) > 0.99
    assert cuts[0].history[0].free_energy == pytest.approx(cuts[1].history[0].free_energy, rel=1e-5)


@pytest.mark.parametrize(("n", "m"), [(10, 10), (10, 20), (1, 1), (1000, 7), (1001, 1000)])
def test_samples_are_distinct_rows_in_order(n: int, m: int) -> None:
    rows = sampled_rows(n, m, seed=3)
    assert len(rows) == min(n, m)
    assert np.all(np.diff(rows) > 0)
    assert 0 <= rows[0]
    assert rows[-1] < n


def test_what_is_asked_for_stays() -> None:
    small, large = Settings(8), Settings(800)
    assert defaults.suited_to_data(small, {"n_components"}, 1000, 20).init_params == "pilot"
    assert defaults.suited_to_data(small, {"init_params"}, 1000, 20).init_params == "afkmc2"
    assert defaults.suited_to_data(large, {"n_components"}, 50_000, 3072).init_params == "afkmc2"
    assert defaults.suited_to_data(small, {"n_components"}, 10**9, 20).init_params == "pilot"
    assert defaults.suited_to_data(small, {"n_init"}, 1000, 20).n_init == 1
    assert [defaults.suited_to_data(small, (), 1000, d).n_factors for d in (1, 2, 5, 6, 9)] == [0, 1, 4, 5, 5]


@pytest.mark.parametrize("init_params", ["afkmc2", "uniform", "k-means++", "k-means+fa", "noise"])
@pytest.mark.parametrize("search", ["guided", "exhaustive"])
def test_the_best_of_several_initialisations_goes_on(init_params: str, search: str, processes: Client) -> None:
    rows, _ = blobs(12, 4, seed=5, n=1200)
    options: dict[str, Any] = {"n_components": 12, "n_factors": 1, "init_params": init_params, "search": search}
    options |= {"n_groups": 3, "max_iter": 5}
    one, best = (fit_local(rows, **options, n_init=n) for n in (1, 3))
    assert best.history[0].free_energy > one.history[0].free_energy  # trained for some passes, and the best of three
    assert best.history[-1].free_energy >= one.history[-1].free_energy - 0.05
    assert parameters(fit_distributed(rows, client=processes, **options, n_init=3).model) == parameters(best.model)
