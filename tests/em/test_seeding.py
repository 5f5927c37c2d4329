"""Seeds are rows of the data, drawn from the distribution that AFK-MC² defines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, multivariate_normal
from sklearn.cluster import KMeans
from sklearn.decomposition import FactorAnalysis

from tests.em.runs import make_context, train
from tests.samples import draw, images, make_mixture
from tests.twins.seeding import proposal, squared_distances, third_seed
from vmfa_dask import addresses
from vmfa_dask.addresses import GRAPH, PARAMETERS, POSTERIOR, START
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import initial_components
from vmfa_dask.run.starts.initialization import initialize

LEVEL = 1e-3


def seeded(rows: np.ndarray, settings: Settings, n_groups: int | None = None) -> tuple[RunContext, int]:
    context = make_context(rows, settings, n_groups)
    return context, initialize(SerialExecutor(context))


def rows_of(context: RunContext) -> np.ndarray:
    return context.storage.read(addresses.SeedRows())["seed_rows"]


@pytest.mark.parametrize("method", ["afkmc2", "uniform", "k-means++"])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_seeds_are_distinct_rows(method: str, n_groups: int) -> None:
    data = images(600, (4, 4, 3))
    settings = Settings.paper(25, 3, init_params=method, random_state=3)
    context, n_distinct = seeded(data, settings, n_groups)
    rows, mixture = rows_of(context), context.mixture(0)
    assert len(set(rows.tolist())) == 25
    assert n_distinct == 25
    np.testing.assert_allclose(mixture.means + mixture.offset, data.reshape(600, -1)[rows], rtol=1e-6)


@pytest.mark.parametrize("method", ["afkmc2", "uniform", "k-means++"])
def test_seeds_do_not_depend_on_the_groups(method: str) -> None:
    data = draw(make_mixture(6, 5, 1), 500)
    settings = Settings.paper(20, 1, init_params=method, precision="float64")
    starts = [rows_of(seeded(data, settings, n)[0]) for n in (1, 2, 7)]
    np.testing.assert_array_equal(starts[1], starts[0])
    np.testing.assert_array_equal(starts[2], starts[0])


def test_other_random_states_give_other_seeds() -> None:
    data = draw(make_mixture(6, 5, 1), 500)
    starts = [set(rows_of(seeded(data, Settings.paper(20, 1, random_state=k))[0]).tolist()) for k in range(3)]
    assert starts[0] != starts[1] != starts[2] != starts[0]


def assert_drawn_from(counts: np.ndarray, expected: np.ndarray) -> None:
    """Chi-square test; what cannot occur has not occurred, and rare cells are counted together."""
    assert counts[expected < 1e-9].sum() == 0
    common = expected >= 5
    rare = expected[~common].sum()
    cells = [counts[common], [counts[~common].sum()]] if rare > 1e-9 else [counts[common]]
    limits = [expected[common], [rare]] if rare > 1e-9 else [expected[common]]
    assert chisquare(np.concatenate(cells), np.concatenate(limits)).pvalue > LEVEL


def test_proposals_are_half_by_distance_and_half_uniform() -> None:
    # Chains of one proposal: every seed but the first is a draw of its own. One row is far from all others.
    data = np.vstack([draw(make_mixture(2, 2, 0), 9), [[-300.0, 3]]])
    n, runs = len(data), 300
    settings = [Settings.paper(n, 1, chain_length=1, random_state=k, precision="float64") for k in range(runs)]
    seeds = np.array([rows_of(seeded(data, s, n_groups=2)[0]) for s in settings])
    distances, firsts = squared_distances(data), np.bincount(seeds[:, 0], minlength=n)
    counts, expected = np.zeros((n, n)), np.zeros((n, n))
    for row in seeds:
        np.add.at(counts[row[0]], row[1:], 1)
    for first in range(n):
        expected[first] = firsts[first] * (n - 1) * proposal(distances[first])
    assert_drawn_from(firsts, np.full(n, runs / n))
    assert_drawn_from(counts, expected)
    assert_drawn_from(counts.sum(axis=0), expected.sum(axis=0))


def test_chains_have_the_distribution_of_afkmc2() -> None:
    data = np.array([[0.0, 0], [1, 0], [0, 2], [6, 6], [7, 6], [-6, 3]])
    n, runs, length = len(data), 1000, 4
    second, third = third_seed(data, length)
    settings = [Settings.paper(3, 1, chain_length=length, random_state=k, precision="float64") for k in range(runs)]
    triples = np.array([rows_of(seeded(data, s, n_groups=2)[0]) for s in settings])
    pairs = np.zeros((n, n))
    np.add.at(pairs, (triples[:, 0], triples[:, 1]), 1)
    assert_drawn_from(pairs, runs / n * second)
    assert_drawn_from(np.bincount(triples[:, 1], minlength=n), runs * second.mean(axis=0))
    assert_drawn_from(np.bincount(triples[:, 2], minlength=n), runs * third)


def test_uniform_seeds_are_uniform() -> None:
    data = draw(make_mixture(2, 3, 1), 12)
    settings = [Settings.paper(3, 1, init_params="uniform", random_state=k) for k in range(800)]
    chosen = np.array([rows_of(seeded(data, s, 1)[0]) for s in settings])
    assert all(len(set(row)) == 3 for row in chosen.tolist())
    for k in range(3):
        assert chisquare(np.bincount(chosen[:, k], minlength=12)).pvalue > LEVEL


def test_uniform_seeds_may_be_all_rows() -> None:
    data = draw(make_mixture(2, 3, 1), 40)
    context, _ = seeded(data, Settings.paper(40, 1, init_params="uniform"))
    assert sorted(rows_of(context).tolist()) == list(range(40))


def test_start_parameters_and_variational_parameters() -> None:
    data = draw(make_mixture(6, 5, 1), 500)
    settings = Settings.paper(20, 3, truncation=4, neighborhood=6, precision="float64")
    context, _ = seeded(data, settings, n_groups=3)
    mixture, graph = context.mixture(0), context.graph(0).neighbors
    np.testing.assert_allclose(mixture.weights, 1 / 20)
    np.testing.assert_allclose(mixture.noise_variances, np.tile(data.var(axis=0), (20, 1)), rtol=1e-12)
    assert mixture.loadings.min() >= 0
    assert mixture.loadings.max() < 1
    assert chisquare(np.bincount((mixture.loadings.ravel() * 10).astype(int), minlength=10)).pvalue > LEVEL
    assert graph.shape == (20, 6)
    assert all(len(set(row)) == 6 for row in graph.tolist())
    kept = np.concatenate([initial_components(context, group) for group in range(3)])
    assert kept.shape == (500, 4)
    assert all(len(set(row)) == 4 for row in kept.tolist())
    assert (kept.min(), kept.max()) == (0, 19)
    for component, row in enumerate(rows_of(context)):
        assert component in kept[row]


@pytest.mark.parametrize("method", ["afkmc2", "uniform", "k-means++"])
def test_no_factors_and_one_component(method: str) -> None:
    data = draw(make_mixture(3, 4, 0), 50)
    context, n_distinct = seeded(data, Settings.paper(1, 0, truncation=1, init_params=method))
    assert n_distinct == 1
    assert context.mixture(0).loadings.shape == (1, 0, 4)
    assert not initial_components(context, 0).any()


def test_narrow_rows_with_a_large_offset_are_shifted() -> None:
    data = draw(make_mixture(3, 4, 1), 200)
    data[:, 1] += 1e6
    for precision, expected in (("float32", data[:, 1].mean()), ("float64", 0.0)):
        context, _ = seeded(data, Settings.paper(3, 1, precision=precision))
        assert context.offset()[1] == pytest.approx(expected, rel=1e-12)
        assert not context.offset()[[0, 2, 3]].any()


def test_fewer_distinct_rows_than_components_are_counted() -> None:
    data = np.repeat(np.array([[0.0, 0, 0], [5, 5, 5], [9, 0, 9]]), 50, axis=0)
    for method in ("afkmc2", "uniform"):
        _, n_distinct = seeded(data, Settings.paper(6, 1, init_params=method))
        assert 1 < n_distinct <= 3


def test_kmeans_plus_plus_draws_by_squared_distance() -> None:
    """Second and third seeds against their exact distributions; one row is far away and another one occurs twice."""
    data = np.vstack([draw(make_mixture(2, 2, 0), 6), [[30.0, 3]]])
    data = np.vstack([data, data[:1]])
    n, runs = len(data), 1200
    settings = [Settings.paper(3, 0, init_params="k-means++", random_state=k, precision="float64") for k in range(runs)]
    seeds = np.array([rows_of(seeded(data, s, n_groups=2)[0]) for s in settings])
    distances = squared_distances(data)
    counts, expected = np.zeros((n, n)), np.zeros((n, n))
    thirds, third_expected = np.zeros(n), np.zeros(n)
    for first, second, third in seeds:
        counts[first, second] += 1
        thirds[third] += 1
        nearest = np.minimum(distances[first], distances[second])
        third_expected += nearest / nearest.sum()
    for first in range(n):
        expected[first] = np.sum(seeds[:, 0] == first) * distances[first] / distances[first].sum()
    assert_drawn_from(counts, expected)
    assert_drawn_from(thirds, third_expected)


def test_kmeans_plus_plus_ends_where_all_rows_are_seeds() -> None:
    data = np.repeat(np.arange(3.0), 20)[:, None] * np.ones(2)
    context, n_distinct = seeded(data, Settings.paper(6, 0, init_params="k-means++"), 3)
    assert n_distinct == 3
    assert len(rows_of(context)) == 6


def test_noise_fills_the_range_of_each_feature() -> None:
    data = draw(make_mixture(6, 3, 1), 500) * np.array([1.0, 10.0, 0.1]) + np.array([0, 0, 5.0])
    context, _ = seeded(data, Settings.paper(400, 1, init_params="noise", precision="float64"), 2)
    mixture = context.mixture(0)
    means = mixture.means + mixture.offset
    for d in range(3):
        scaled = (means[:, d] - data[:, d].min()) / (data[:, d].max() - data[:, d].min())
        assert kstest(scaled, "uniform").pvalue > LEVEL
    assert np.all(mixture.noise_variances == 1.0)
    assert len(rows_of(context)) == 0


def clusters(data: np.ndarray, **numbers: Any) -> tuple[RunContext, np.ndarray]:
    """A start from k-means and factor analyzers, and the cluster of each row."""
    settings = Settings.paper(6, 2, init_params="k-means+fa", precision="float64", tol=0.0, random_state=1, **numbers)
    context, n_distinct = seeded(data, settings, n_groups=3)
    assert n_distinct == 6
    kept = [context.storage.read(addresses.Posterior(0, g))["components"] for g in range(len(context.plan.groups))]
    return context, np.concatenate(kept)


@pytest.mark.slow
def test_kmeans_fa_is_what_scikit_learn_finds() -> None:
    """Lloyd's algorithm from the same seeds, and the maximum-likelihood factor analyzer of each cluster."""
    data = draw(make_mixture(6, 8, 2), 1500, dtype="float64")
    context, kept = clusters(data)
    seeds, _ = seeded(data, Settings.paper(6, 2, precision="float64", random_state=1), n_groups=3)
    known = KMeans(6, init=seeds.mixture(0).means, n_init=1, tol=0.0, max_iter=300).fit(data)
    np.testing.assert_array_equal(kept[:, 0], known.labels_)
    mixture = context.mixture(0)
    for c in range(6):
        members = data[known.labels_ == c]
        analyzer = FactorAnalysis(2, svd_method="lapack", tol=1e-10, max_iter=20_000).fit(members)
        found = mixture.loadings[c].T @ mixture.loadings[c] + np.diag(mixture.noise_variances[c])
        np.testing.assert_allclose(mixture.weights[c], len(members) / len(data), rtol=1e-9)
        np.testing.assert_allclose(mixture.means[c] + mixture.offset, members.mean(axis=0), rtol=1e-6, atol=1e-6)
        likelihood = multivariate_normal(mixture.means[c] + mixture.offset, found).logpdf(members).mean()
        assert likelihood > analyzer.score(members) - 0.02  # EM ends by its tolerance, from another start


def test_kmeans_fa_keeps_the_cluster_and_fills_the_rest() -> None:
    data = draw(make_mixture(6, 8, 2), 600)
    context, kept = clusters(data)
    assert kept.shape == (600, 3)
    assert (np.sort(kept, axis=1)[:, 1:] > np.sort(kept, axis=1)[:, :-1]).all()
    assert len(np.unique(kept[:, 1])) == 6
    kinds = {address.kind for address in context.storage._arrays}  # type: ignore[attr-defined]
    assert kinds == {START, PARAMETERS, GRAPH, POSTERIOR}


@pytest.mark.parametrize(
    "numbers",
    [
        {"covariance_type": "diagonal", "n_factors": 0},
        {"noise": "shared", "search": "exhaustive"},
        {"empty_components": "split", "neighborhood": (3, 2, 1), "search_every": 2},
    ],
)
def test_kmeans_fa_begins_every_kind_of_run(numbers: dict[str, Any]) -> None:
    data = draw(make_mixture(6, 8, 2), 600)
    settings = Settings.paper(
        **{
            "n_components": 6,
            "n_factors": 2,
            "init_params": "k-means+fa",
            "max_warmup_iter": 3,
            "max_iter": 3,
            **numbers,
        }
    )
    state, mixture = train(make_context(data, settings))
    assert np.isclose(mixture.weights.sum(), 1.0)
    energies = [record.free_energy for record in state.records if record.phase == "training"]
    assert (np.diff(energies) > -1e-6 * np.abs(energies[0])).all()


@pytest.mark.parametrize("empty", ["drop", "split"])
def test_clusters_without_rows_are_left_to_the_run(empty: str) -> None:
    data = np.repeat(np.array([[0.0, 1, 2, 3], [5, 6, 7, 9]]), 50, axis=0)
    context = make_context(data, Settings.paper(8, 1, init_params="k-means+fa", max_iter=2, empty_components=empty))
    state, mixture = train(context)
    lost = [c for record in state.records for c in (*record.dropped, *record.split)]
    assert lost  # and named, at the M-step after which no row keeps them as its second choice either
    assert np.count_nonzero(mixture.weights) == (8 if empty == "split" else 8 - len(lost))
    assert state.records[0].n_alive == 8
