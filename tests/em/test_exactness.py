"""With every component kept, the algorithm is textbook EM; with fewer, its bound still never falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.em.runs import assert_same_parameters, free_energies, make_context, train
from tests.samples import draw, exact_start, make_mixture, make_start
from tests.twins.mixture import Dense, log_densities, textbook_em
from vmfa_dask.run.settings import Settings
from vmfa_dask.values import Mixture

ITERATIONS = 10


def exact_settings(c: int, h: int, precision: str) -> Settings:
    return Settings.paper(
        c,
        h,
        truncation=c,
        neighborhood=1,
        random_candidates=0,
        tol=0,
        max_warmup_iter=0,
        max_iter=ITERATIONS,
        reg_covar=1e-6,
        precision=precision,
    )


def beside(truth: Mixture) -> Mixture:
    """A start with the wrong loadings and noise and displaced means, such that every component gets some rows."""
    other = make_mixture(truth.n_components, truth.n_features, truth.n_factors, seed=7, dtype=truth.means.dtype.name)
    return Mixture(other.weights, truth.means + 0.4 * other.means, other.loadings, other.noise_variances)


@pytest.mark.parametrize(
    ("precision", "n_factors", "rounding"),
    [("float64", 3, 1e-8), ("float64", 1, 1e-8), ("float64", 0, 1e-8), ("float32", 3, 1e-4)],
)
def test_ten_iterations_equal_textbook_em(precision: str, n_factors: int, rounding: float) -> None:
    truth = make_mixture(3, 9, n_factors, dtype=precision)
    rows = draw(truth, 240, dtype=precision)
    first = beside(truth)
    context = make_context(rows, exact_settings(3, n_factors, precision), n_threads=2)
    training, found = train(context, exact_start(first, 240))
    known, likelihoods = textbook_em(Dense.of(first), rows.astype(np.float64), ITERATIONS, 1e-6)
    np.testing.assert_allclose(free_energies(training), likelihoods, rtol=rounding)
    assert_same_parameters(found, known, rounding)
    assert likelihoods[-1] > likelihoods[0] + 1  # there was something to learn


# Search as in the paper, and cheaper ones.
SEARCHES: list[dict[str, Any]] = [{}, {"neighborhood": (4, 2, 1)}, {"search_every": 3}]


def guided(seed: int, n_factors: int = 3, **options: Any) -> tuple[Settings, np.ndarray]:
    truth = make_mixture(12, 8, n_factors, seed=seed, spread=2.0)
    numbers: dict[str, Any] = {
        "truncation": 3,
        "neighborhood": 4,
        "random_candidates": 1,
        "tol": 0,
        "warmup_tol": 0,
        "max_warmup_iter": 6,
        "max_iter": 25,
        "reg_covar": 1e-9,
        "precision": "float64",
        "random_state": seed,
    }
    settings = Settings.paper(10, n_factors, **{**numbers, **options})
    return settings, draw(truth, 1500, seed=seed)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_free_energy_never_falls(seed: int, search: dict[str, Any]) -> None:
    settings, rows = guided(seed, **search)
    training, mixture = train(make_context(rows, settings))
    assert mixture.noise_variances.min() > 10 * settings.reg_covar  # the floor was never active
    energies = free_energies(training)
    assert [record.phase for record in training.records] == ["warm-up"] * 6 + ["training"] * 25 + ["final"]
    assert np.all(np.diff(energies) >= -1e-12 * np.abs(energies[1:]))
    assert energies[5] > energies[0]
    assert energies[-1] > energies[6] + 0.1


def test_free_energy_is_a_lower_bound_of_the_likelihood() -> None:
    settings, rows = guided(0)
    training, mixture = train(make_context(rows[:500], settings))
    likelihood = log_densities(Dense.of(mixture), rows[:500]).mean()
    assert likelihood - 0.2 < training.records[-1].free_energy <= likelihood


def test_records_count_joints_and_rows() -> None:
    settings, rows = guided(1)
    training, _ = train(make_context(rows, settings))
    for record in training.records[:-1]:
        assert len(rows) * 3 <= record.n_joints <= len(rows) * settings.search_size
        assert record.joints_per_row == record.n_joints / len(rows)
    assert training.records[-1].n_joints == 3 * len(rows)
    assert [record.iteration for record in training.records] == list(range(32))
    energies = free_energies(training)
    changes = [record.change for record in training.records]
    assert np.isnan(changes[0])
    np.testing.assert_allclose(changes[1:], np.diff(energies) / np.abs(energies[:-1]), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("search", SEARCHES[1:], ids=str)
def test_cheaper_searches_evaluate_fewer_joints_to_the_same_end(search: dict[str, Any]) -> None:
    settings, rows = guided(1)
    cheaper, _ = guided(1, **search)
    (full, _), (few, _) = train(make_context(rows, settings)), train(make_context(rows, cheaper))
    joints = [sum(record.n_joints for record in training.records) for training in (full, few)]
    assert joints[1] < 0.85 * joints[0]
    assert free_energies(few)[-1] == pytest.approx(free_energies(full)[-1], abs=0.1)


def test_rows_that_rest_are_evaluated_on_their_set_alone() -> None:
    """Once all sets are settled, a pass costs C' joints for the rows that rest and more for a third of them."""
    settings, rows = guided(2, search_every=3, max_warmup_iter=40, max_iter=0, random_candidates=0)
    training, _ = train(make_context(rows, settings))
    joints = np.array([record.joints_per_row for record in training.records[:-1]])
    turns = joints[-3:]
    assert joints[0] > 6
    assert np.all(turns > 3.0)
    searched = train(make_context(rows, guided(2, max_warmup_iter=40, max_iter=0, random_candidates=0)[0]))[0]
    # Neighbours differ a little, as they are learned from fewer joints.
    assert (turns - 3).sum() == pytest.approx(searched.records[-2].joints_per_row - 3, rel=0.1)


def test_a_small_known_mixture_is_recovered() -> None:
    truth = make_mixture(4, 6, 1, seed=5, spread=6.0)
    rows = draw(truth, 6000)
    settings = Settings.paper(4, 1, truncation=2, tol=1e-7, precision="float64", random_state=1)
    training, found = train(make_context(rows, settings, n_groups=2))
    assert training.converged
    order = [int(np.argmin(np.linalg.norm(found.means - mean, axis=1))) for mean in truth.means]
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=0.02)
    np.testing.assert_allclose(found.means[order], truth.means, atol=0.2)
    for c, k in enumerate(order):
        known, learned = Dense.of(truth).covariance(c), Dense.of(found).covariance(k)
        np.testing.assert_allclose(learned, known, atol=0.12 * np.abs(known).max())


def permuted(n: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(3).permutation(n)
    return order, np.argsort(order)


def test_permuting_components_permutes_the_result() -> None:
    settings = Settings.paper(
        10,
        3,
        truncation=3,
        neighborhood=4,
        random_candidates=0,
        tol=0,
        warmup_tol=0,
        max_warmup_iter=3,
        max_iter=6,
        precision="float64",
    )
    rows = draw(make_mixture(10, 8, 3, spread=2.0), 900)
    start = make_start(make_mixture(10, 8, 3, seed=4, spread=2.0), 900, 3, 4)
    order, place = permuted(10)
    m, graph = start.mixture, start.graph.neighbors
    other = type(start)(
        type(m)(m.weights[order], m.means[order], m.loadings[order], m.noise_variances[order]),
        type(start.graph)(place[graph[order]].astype(np.int32)),
        place[start.components].astype(np.int32),
    )
    (a, one), (b, two) = train(make_context(rows, settings), start), train(make_context(rows, settings), other)
    np.testing.assert_allclose(free_energies(a), free_energies(b), rtol=1e-12)
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name)[order], rtol=1e-9, atol=1e-12)


def test_translating_rows_translates_the_result() -> None:
    settings, rows = guided(2)
    shift = np.linspace(-40, 60, 8)
    (a, one), (b, two) = (train(make_context(x, settings)) for x in (rows, rows + shift))
    np.testing.assert_allclose(free_energies(a), free_energies(b), rtol=1e-9)
    np.testing.assert_allclose(two.means + two.offset, one.means + one.offset + shift, rtol=1e-8, atol=1e-8)
    for name in ("weights", "loadings", "noise_variances"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-6, atol=1e-8)
