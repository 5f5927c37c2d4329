"""Components one by one: divergences from full covariances, trees of SciPy, and moments that merging keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense, log_joints
from vmfa_dask import MixtureModel
from vmfa_dask.apply.divergences import average_linkage, symmetric_divergences


def divergence(dense: Dense, a: int, b: int) -> float:
    """KL(a ‖ b) of full Gaussians."""
    of_a, inverse = dense.covariance(a), np.linalg.inv(dense.covariance(b))
    difference = dense.means[b] - dense.means[a]
    determinants = np.linalg.slogdet(dense.covariance(b))[1] - np.linalg.slogdet(of_a)[1]
    return 0.5 * float(np.trace(inverse @ of_a) - len(of_a) + difference @ inverse @ difference + determinants)


@pytest.mark.parametrize(("dtype", "n_factors"), [("float64", 3), ("float32", 1), ("float64", 0)])
def test_divergences_of_full_covariances(dtype: str, n_factors: int) -> None:
    mixture = make_mixture(5, 7, n_factors, dtype=dtype, spread=1.0)
    dense = Dense.of(mixture)
    expected = [[divergence(dense, a, b) + divergence(dense, b, a) for b in range(5)] for a in range(5)]
    np.testing.assert_allclose(symmetric_divergences(mixture), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 40])
def test_trees_are_those_of_scipy(n: int) -> None:
    distances = squareform(np.random.default_rng(n).random(n * (n - 1) // 2))
    np.testing.assert_allclose(average_linkage(distances), linkage(squareform(distances), "average"))


def test_hierarchy_joins_what_is_alike() -> None:
    means = np.array([[0.0, 0, 0], [50, 0, 0], [1, 0, 0], [50, 2, 0]])
    model = MixtureModel(np.full(4, 0.25), means, np.ones((4, 1, 3)), np.ones((4, 3)))
    tree = model.hierarchy()
    assert {tuple(pair) for pair in tree[:2, :2].astype(int)} == {(0, 2), (1, 3)}
    with pytest.raises(ValueError, match="1 components: a tree"):
        model.prune(0.25).merge_components(0, 1).merge_components(0, 1).merge_components(0, 1).hierarchy()


def test_typical_rows_have_the_largest_joints() -> None:
    model = MixtureModel.of(make_mixture(4, 6, 2, spread=1.0))
    rows = draw(model, 200)
    order = np.argsort(-log_joints(Dense.of(model), rows), axis=0, kind="stable")
    np.testing.assert_array_equal(model.typical_rows(rows, 5), order[:5].T)
    few = model.typical_rows(rows[:3], 5)
    assert np.all(np.sort(few[:, :3]) == [0, 1, 2])
    assert np.all(few[:, 3:] == -1)
    many = np.tile(rows, (30, 1))  # more than one row block; of equal rows the first one counts
    np.testing.assert_array_equal(model.typical_rows(many, 1)[:, 0], order[0])


def test_pruned_models_have_no_small_components() -> None:
    m = make_mixture(4, 5, 1, dtype="float32")
    model = MixtureModel(np.array([0.5, 0.01, 0.3, 0.19]), m.means, m.loadings, m.noise_variances)
    pruned = model.prune(0.1)
    np.testing.assert_array_equal(pruned.means, model.means[[0, 2, 3]])
    np.testing.assert_allclose(pruned.weights, np.array([0.5, 0.3, 0.19]) / 0.99)
    assert model.prune(0) == model
    with pytest.raises(ValueError, match=r"no component would remain; the largest weight is 0\.5"):
        model.prune(0.6)


@pytest.mark.parametrize(("dtype", "n_factors"), [("float64", 2), ("float32", 1), ("float64", 0)])
def test_merged_components_keep_their_moments(dtype: str, n_factors: int) -> None:
    model = MixtureModel.of(make_mixture(4, 6, n_factors, dtype=dtype, spread=0.5))
    merged = model.merge_components(3, 1)
    shares = model.weights[[1, 3]] / model.weights[[1, 3]].sum()
    mean = shares @ model.means[[1, 3]]
    total = sum(
        share * (model.covariance(c) + np.outer(model.means[c] - mean, model.means[c] - mean))
        for share, c in zip(shares, (1, 3), strict=True)
    )
    assert merged.n_components == 3
    assert merged.weights[1] == pytest.approx(model.weights[1] + model.weights[3])
    np.testing.assert_allclose(merged.means[1], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.diag(merged.covariance(1)), np.diag(total), rtol=1e-5)
    np.testing.assert_array_equal(merged.means[[0, 2]], model.means[[0, 2]])
    np.testing.assert_array_equal(merged.loadings[2], model.loadings[2])


def test_a_component_merged_with_itself_is_unchanged() -> None:
    """Two equal components have the directions of one: none is lost."""
    m = make_mixture(2, 6, 2)
    twice = [np.concatenate([part, part[:1]]) for part in (m.means, m.loadings, m.noise_variances)]
    model = MixtureModel(np.array([0.2, 0.5, 0.3]), *twice)
    merged = model.merge_components(0, 2)
    np.testing.assert_allclose(merged.covariance(0), model.covariance(0), rtol=1e-9, atol=1e-9)
    rows = draw(model, 50)
    np.testing.assert_allclose(merged.score_samples(rows), model.score_samples(rows), rtol=1e-9)


@pytest.mark.parametrize(("pair", "error"), [((0, 4), IndexError), ((-1, 0), IndexError), ((2, 2), ValueError)])
def test_pairs_are_checked(pair: tuple[int, int], error: type[Exception]) -> None:
    with pytest.raises(error, match="expected"):
        MixtureModel.of(make_mixture(4, 6, 1)).merge_components(*pair)
