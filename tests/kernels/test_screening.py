"""Estimates from a part of the features against dense marginal Gaussians, and the choice of candidates by them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.calls import grouped
from tests.samples import draw, make_mixture
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import read_only
from vmfa_dask.em.screening import part_of_pass, screening_of
from vmfa_dask.kernels.arguments import Regrouped, SearchSpaces
from vmfa_dask.kernels.screening import estimated_joints
from vmfa_dask.kernels.selection import anchor_estimates, select_candidates
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Mixture

ROUNDING = {"float32": 2e-6, "float64": 1e-11}


def features_of(part: int, n_features: int) -> NDArray[np.int64]:
    """By the definition: runs of 64 features, every fourth of them, and the next one after each 1,024 features."""
    chosen = [d for d in range(n_features) if (part + d // 1024) % 4 == d // 64 % 4]
    return np.array(chosen)


def estimate(mixture: Mixture, rows: NDArray[np.generic], part: int, n_threads: int = 1) -> Float64:
    """Estimates of all components with all rows, (C, n)."""
    cores, (n, d), c = Cores(n_threads), rows.shape, mixture.n_components
    packed = pack_mixture(mixture, cores)
    screening = screening_of(packed, d, part, cores)
    regrouped = Regrouped(*grouped(np.repeat(np.arange(c), n), np.tile(np.arange(n), c), c))
    estimates, rows, parameters = np.full(n * c, np.nan), read_only(rows), packed.parameters
    cores.run(
        lambda a, b: estimated_joints(rows, regrouped, part, a, b, parameters, screening.marginals, estimates),
        cores.split_by_work(regrouped.indptr),
    )
    return estimates.reshape(c, n)


def expected(mixture: Mixture, rows: NDArray[np.generic], part: int) -> tuple[Float64, Float64]:
    """The same from dense covariances, and the scale of rounding errors."""
    d = rows.shape[1]
    chosen = features_of(part, d)
    exact, scale = np.empty((mixture.n_components, len(rows))), np.empty((mixture.n_components, len(rows)))
    for c in range(mixture.n_components):
        loadings = mixture.loadings[c].astype(np.float64)[:, chosen]
        noise = mixture.noise_variances[c].astype(np.float64)[chosen]
        covariance = loadings.T @ loadings + np.diag(noise)
        t = rows[:, chosen].astype(np.float64) - mixture.means[c][chosen]
        distances = np.sum(t * np.linalg.solve(covariance, t.T).T, axis=1)
        constant = len(chosen) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1]
        share = d / len(chosen)
        exact[c] = np.log(mixture.weights[c]) - 0.5 * share * (constant + distances)
        scale[c] = 1 + np.abs(exact[c]) + 0.5 * share * np.sum(t**2 / noise, axis=1)
    return exact, scale


@pytest.mark.parametrize("n_features", [256, 300, 1111])
@pytest.mark.parametrize(
    ("stored", "precision", "n_factors"),
    [("uint8", "float32", 3), ("float32", "float32", 0), ("float64", "float64", 3)],
)
def test_estimates_are_those_of_dense_marginals(stored: str, precision: str, n_factors: int, n_features: int) -> None:
    mixture = make_mixture(3, n_features, n_factors, seed=n_features, dtype=precision)
    middle = np.asarray(12.0 if stored == "uint8" else 0.0, precision)
    mixture = Mixture(mixture.weights, mixture.means + middle, mixture.loadings, mixture.noise_variances)
    rows = draw(mixture, 19, dtype=stored)  # full tiles, and rows that do not fill one
    for part in range(4):
        exact, scale = expected(mixture, rows, part)
        np.testing.assert_array_less(np.abs(estimate(mixture, rows, part) - exact) / scale, ROUNDING[precision])


def test_every_feature_is_in_one_part() -> None:
    for n_features in (256, 300, 3072):
        parts = [features_of(part, n_features) for part in range(4)]
        assert np.sort(np.concatenate(parts)).tolist() == list(range(n_features))
        packed = pack_mixture(make_mixture(1, n_features, 0, dtype="float32"), Cores(1))
        for part, features in enumerate(parts):
            assert screening_of(packed, n_features, part, Cores(1)).marginals.scale == n_features / len(features)


def test_cancelling_components_are_estimated_in_float64() -> None:
    mixture = make_mixture(2, 300, 3, dtype="float32")
    noise = mixture.noise_variances.copy()
    noise[0] = 1e-5
    mixture = Mixture(mixture.weights, mixture.means, mixture.loadings, noise)
    assert pack_mixture(mixture, Cores(1)).precise_slot.tolist() == [0, -1]
    rows = draw(mixture, 30, dtype="float32")
    exact, _ = expected(mixture, rows, 1)
    near = np.abs(exact[0]) < 3e3
    assert near.sum() > 5
    np.testing.assert_allclose(estimate(mixture, rows, 1)[0, near], exact[0, near], atol=2e-3)


def test_threads_change_no_bit_and_dropped_components_are_minus_infinity() -> None:
    mixture = make_mixture(5, 300, 3, dtype="float32")
    weights = np.array([0.3, 0.2, 0.0, 0.4, 0.1])
    mixture = Mixture(weights, mixture.means, mixture.loadings, mixture.noise_variances)
    rows = draw(mixture, 101, dtype="float32")
    one = estimate(mixture, rows, 2)
    assert np.all(one[2] == -np.inf)
    assert np.isfinite(np.delete(one, 2, axis=0)).all()
    np.testing.assert_array_equal(estimate(mixture, rows, 2, n_threads=3), one)


@pytest.mark.parametrize("search_every", range(1, 9))
def test_searches_of_a_row_take_the_parts_in_turn(search_every: int) -> None:
    for turn in range(search_every):
        parts = [part_of_pass(turn + k * search_every, search_every) for k in range(8)]
        assert all(sorted(parts[k : k + 4]) == [0, 1, 2, 3] for k in range(5))


def spaces_of(candidates: NDArray[np.int32], values: Float64) -> SearchSpaces:
    """Search spaces whose candidates have the given values, one slot after the other."""
    n, size = candidates.shape
    slots = np.arange(n * size, dtype=np.int32).reshape(n, size)
    sizes, by_row = np.full(n, size, np.int32), np.empty((n, size))
    return SearchSpaces(candidates.copy(), sizes, slots, values.ravel().copy(), by_row)


def test_kept_components_and_the_best_estimates_are_chosen() -> None:
    rng = np.random.default_rng(0)
    n, size, n_best = 200, 20, 5
    candidates = np.array([rng.permutation(60)[:size] for _ in range(n)], np.int32)
    values = np.round(rng.normal(size=(n, size)), 1)  # with ties
    # The second kept component is none of the candidates, as one that was dropped; the third one is missing.
    components = np.column_stack([candidates[:, 7], np.full(n, 70), np.full(n, -1)]).astype(np.int32)
    spaces, sizes = spaces_of(candidates, values), np.zeros(n, np.int32)
    select_candidates(components, spaces, n_best, 0, n, sizes)
    for i in range(n):
        order = sorted(range(size), key=lambda k, i=i: (-values[i, k], candidates[i, k]))  # type: ignore[misc]
        best = {int(candidates[i, k]) for k in order[:n_best]} | {int(candidates[i, 7])}
        assert spaces.candidates[i, 0] == candidates[i, 7]
        assert set(spaces.candidates[i, : sizes[i]].tolist()) == best
        found = dict(zip(spaces.candidates[i].tolist(), spaces.by_row[i].tolist(), strict=True))
        assert found == dict(zip(candidates[i].tolist(), values[i].tolist(), strict=True))
    assert set(sizes.tolist()) == {n_best, n_best + 1}


def test_estimates_are_relative_to_the_best_component() -> None:
    candidates = np.array([[4, 2, 9, 5], [1, 3, 2, 8]], np.int32)
    spaces = spaces_of(candidates, np.array([[-50.0, -40.0, 0, 0], [-9.0, -9.0, 0, 0]]))
    spaces.by_row[:] = [[-6.0, -7.0, -9.0, -30.0], [-1.0, -2.0, -5.0, -8.0]]
    anchor_estimates(spaces, np.array([2, 4], np.int32), 0, 2)
    np.testing.assert_array_equal(spaces.by_row[0], [-6.0, -7.0, -42.0, -63.0])
    np.testing.assert_array_equal(spaces.by_row[1], [-1.0, -2.0, -5.0, -8.0])  # all of them were evaluated
