"""The whole family of models against textbook EM with full covariances, and exhaustive search against guided search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.em.runs import free_energies, make_context, train
from tests.samples import draw, exact_start, make_mixture, parameters
from tests.twins.mixture import Dense, constrained, log_densities, textbook_em
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.em.splitting import Splits, draw_donors, split_neighbors, split_parameters
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.values import Mixture, NeighborGraph

ROWS = draw(make_mixture(5, 8, 3, spread=2.0), 500)
TYPES = [(kind, noise) for kind in ("mfa", "diagonal", "isotropic") for noise in ("component", "shared")]


def exact(kind: str, noise: str, **options: Any) -> Settings:
    """Ten iterations of exact EM in float64."""
    numbers: dict[str, Any] = {"truncation": 4, "tol": 0, "max_iter": 10, "reg_covar": 1e-9, "precision": "float64"}
    factors = 2 if kind == "mfa" else 0
    return Settings.paper(4, factors, covariance_type=kind, noise=noise, search="exhaustive", **{**numbers, **options})


def start_of(kind: str, noise: str) -> Mixture:
    """Parameters that satisfy the constraints of a model type."""
    mixture = make_mixture(4, 8, 2 if kind == "mfa" else 0, seed=7, spread=2.0)
    dense = constrained(Dense.of(mixture), kind == "isotropic", noise == "shared")
    return Mixture(dense.weights, dense.means, dense.loadings, dense.noise_variances)


def begin(mixture: Mixture) -> Start:
    """A start with neighbours of the default number."""
    c = mixture.n_components
    neighbors = np.array([[k, *(j for j in range(c) if j != k)] for k in range(c)], np.int32)
    return Start(mixture, NeighborGraph(neighbors), exact_start(mixture, len(ROWS)).components)


@pytest.mark.parametrize("learn_weights", [True, False])
@pytest.mark.parametrize(("kind", "noise"), TYPES)
def test_exact_em_is_that_of_the_textbook(kind: str, noise: str, learn_weights: bool) -> None:
    mixture = start_of(kind, noise)
    settings = exact(kind, noise, learn_weights=learn_weights)
    fixed = None if learn_weights else mixture.weights
    state, found = train(make_context(ROWS, settings, n_groups=3), begin(mixture))
    known, likelihoods = textbook_em(
        Dense.of(mixture), ROWS, 10, 1e-9, lambda d: constrained(d, kind == "isotropic", noise == "shared", fixed)
    )
    np.testing.assert_allclose(free_energies(state), likelihoods, rtol=1e-10)
    for name in ("weights", "means", "loadings", "noise_variances"):
        expected = getattr(known, name)
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-8 * np.abs(expected).max(initial=0), rtol=0)
    assert [record.phase for record in state.records] == ["training"] * 10 + ["final"]
    assert all(record.n_joints == 4 * len(ROWS) for record in state.records)


@pytest.mark.parametrize(("kind", "noise"), TYPES)
@pytest.mark.parametrize("search", ["guided", "exhaustive"])
def test_every_type_is_seeded_trained_and_improves(kind: str, noise: str, search: str) -> None:
    settings = exact(kind, noise, truncation=2, neighborhood=3, random_state=2)
    settings = Settings.paper(**{**vars(settings), "search": search, "max_warmup_iter": 3})
    state, found = train(make_context(ROWS, settings))
    energies = free_energies(state)
    assert np.all(np.diff(energies) >= -1e-10)
    assert energies[-1] > energies[0] + 1
    if noise == "shared":
        assert np.all(found.noise_variances == found.noise_variances[0])
    if kind == "isotropic":
        assert np.all(found.noise_variances == found.noise_variances[:, :1])


def test_the_floor_holds_for_every_type() -> None:
    rows = np.repeat(np.arange(4.0)[:, None], 3, axis=1)[np.arange(200) % 4]
    for kind, noise in TYPES:
        settings = Settings.paper(**{**vars(exact(kind, noise, reg_covar=0.25)), "n_factors": 0})
        _, found = train(make_context(rows, settings))
        assert found.noise_variances.min() == 0.25


@pytest.mark.parametrize("truncation", [1, 2, 3])
def test_exhaustive_truncation_keeps_the_best_and_bounds_the_likelihood(truncation: int) -> None:
    """K_n^opt: of all sets of C' components the one of highest free energy (paper, ablation)."""
    mixture = start_of("mfa", "component")
    state, found = train(
        make_context(ROWS, exact("mfa", "component", truncation=truncation, max_iter=5)),
        Start(mixture, begin(mixture).graph, begin(mixture).components[:, :truncation]),
    )
    energies = free_energies(state)
    assert np.all(np.diff(energies) >= -1e-12)
    guided = Settings.paper(
        4, 2, truncation=truncation, neighborhood=4, tol=0, max_iter=5, reg_covar=1e-9, precision="float64"
    )
    other, _ = train(
        make_context(ROWS, guided), Start(mixture, begin(mixture).graph, begin(mixture).components[:, :truncation])
    )
    # With neighbourhoods of all components guided search finds the same sets.
    np.testing.assert_allclose(energies[:5], free_energies(other)[len(other.records) - 6 : -1], rtol=1e-9)
    assert energies[-1] <= log_densities(Dense.of(found), ROWS).mean()


def test_exhaustive_search_is_exact_em_by_default() -> None:
    fit = fit_local(ROWS, n_components=5, n_factors=2, search="exhaustive", max_iter=4)
    assert fit.settings.truncation == 5
    assert {record.joints_per_row for record in fit.history} == {5.0}
    assert fit.history[-1].free_energy == pytest.approx(fit.model.score(ROWS), rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"covariance_type": "isotropic", "noise": "shared"},
        {"covariance_type": "diagonal", "learn_weights": False},
        {"noise": "shared", "n_factors": 2, "similarity": "joint"},
        {"search": "exhaustive", "n_factors": 2, "truncation": 2},
    ],
    ids=str,
)
def test_every_executor_gives_the_same_bytes(options: dict[str, Any], processes: Client, tmp_path: Any) -> None:
    numbers: dict[str, Any] = {"n_components": 6, "n_groups": 10, "max_iter": 4, "max_warmup_iter": 2, "tol": 0.0}
    serial = fit_local(ROWS, **numbers, **options)
    other = fit_distributed(ROWS, client=processes, **numbers, **options)
    assert parameters(other.model) == parameters(serial.model)
    run = str(tmp_path / "run")
    fit_local(ROWS, **{**numbers, "max_iter": 2}, **options, run=run)
    assert parameters(fit_local(ROWS, **numbers, **options, run=run).model) == parameters(serial.model)


def test_components_keep_fixed_weights_when_they_lose_their_rows() -> None:
    rows = np.concatenate([np.zeros((50, 3)), np.full((50, 3), 9.0)]) + np.random.default_rng(0).normal(
        0, 0.1, (100, 3)
    )
    fit = fit_local(rows, n_components=5, n_factors=0, learn_weights=False, init_params="uniform", max_iter=8)
    np.testing.assert_allclose(fit.model.weights, 0.2)
    assert fit.dropped == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance_type": "diagonal", "n_factors": 3}, "n_factors=3: expected 0 with covariance_type='diagonal'"),
        ({"covariance_type": "full"}, "covariance_type='full': expected one of .*mfa.*diagonal.*isotropic"),
        ({"noise": "tied"}, "noise='tied': expected one of .*component.*shared"),
        ({"search": "random"}, "search='random': expected one of .*guided.*exhaustive"),
        ({"similarity": "euclidean"}, "similarity='euclidean': expected one of .*kl.*joint"),
        ({"empty_components": "keep"}, "empty_components='keep': expected one of .*drop.*split"),
        ({"learn_weights": "no"}, "learn_weights='no': expected one of"),
        ({"truncation": 9}, "truncation=9: expected at most n_components=6"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_local(ROWS, n_components=6, **options)


def test_components_without_rows_take_half_of_another_one(processes: Client, tmp_path: Any) -> None:
    """From noise many components are empty at once; they are split until all have rows, in the same bytes anywhere."""
    rows = draw(make_mixture(6, 6, 1, spread=6.0), 900, dtype="float32")
    options: dict[str, Any] = {"n_components": 12, "n_factors": 1, "init_params": "noise", "tol": 0.0, "n_groups": 3}
    options["preset"] = "paper"  # noise of the size of the data leaves no component without rows
    dropped = fit_local(rows, **options, max_iter=20)
    split = fit_local(rows, **options, max_iter=20, empty_components="split")
    assert len(dropped.dropped) > 0
    assert any(record.split for record in split.history)
    assert split.dropped == {}
    assert split.model.n_components == 12
    assert {record.n_alive for record in split.history} == {12}
    assert split.model.score(rows) > dropped.model.score(rows)
    other = fit_distributed(rows, client=processes, **options, max_iter=20, empty_components="split")
    assert parameters(other.model) == parameters(split.model)
    first = next(record.iteration for record in split.history if record.split)
    warmup = sum(record.phase == "warm-up" for record in split.history)
    run = str(tmp_path / "run")
    fit_local(rows, **options, max_iter=first - warmup + 1, empty_components="split", run=run)
    resumed = fit_local(rows, **options, max_iter=20, empty_components="split", run=run, resume="require")
    assert parameters(resumed.model) == parameters(split.model)


def test_a_split_leaves_the_density_nearly_as_it_was() -> None:
    mixture = make_mixture(4, 8, 2, spread=6.0)
    whole = {n: np.array(getattr(mixture, n)) for n in ("weights", "means", "loadings", "noise_variances")}
    whole["weights"] = np.array([0.5, 0.3, 0.0, 0.2])
    splits = draw_donors(whole["weights"], [2], random_state=0, version=5)
    assert splits.components.tolist() == [2]
    assert splits.donors[0] != 2
    before = Dense(*(array.copy() for array in whole.values()))
    every = np.arange(4, dtype=np.int32)
    split_parameters(whole, splits, random_state=0, version=5, n_components=4, numbers=every)
    after = Dense(*whole.values())
    donor = int(splits.donors[0])
    assert after.weights[2] == after.weights[donor] == before.weights[donor] / 2
    assert after.weights.sum() == pytest.approx(1.0)
    rows = ROWS[:50]
    alive = Dense(*(np.delete(array, 2, axis=0) for array in vars(before).values()))
    np.testing.assert_allclose(log_densities(after, rows), log_densities(alive, rows), rtol=0.02)
    neighbors = np.array([[0, 1, -1], [1, 0, 3], [2, 0, 1], [3, 1, 0]], np.int32)
    for giver, expected in ((0, ([0, 1, 2], [2, 0, 1])), (1, ([1, 0, 2], [2, 1, 0]))):
        found = split_neighbors(neighbors, Splits(np.array([2]), np.array([giver])), every)
        assert (found[giver].tolist(), found[2].tolist()) == expected
