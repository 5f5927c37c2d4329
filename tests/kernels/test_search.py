"""Search spaces, their transposition, truncation and divergence tallies against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.twins import search as twin
from vmfa_dask.em.rows import read_only
from vmfa_dask.kernels import search, tallies, truncation
from vmfa_dask.kernels.arguments import Draws, Graph, Regrouped, SearchSpaces, Tallies, Truncated
from vmfa_dask.kernels.random import SEARCH, draw_integer


def draw_case(
    n: int, c: int, truncation: int, neighborhood: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kept components with padding, neighbours with padding, and which components are alive."""
    rng = np.random.default_rng(seed)
    kept = np.argsort(rng.random((n, c)), axis=1)[:, :truncation].astype(np.int32)
    kept[rng.random(kept.shape) < 0.1] = -1
    neighbors = np.column_stack([np.arange(c), rng.integers(-1, c, (c, neighborhood - 1))]).astype(np.int32)
    return kept, neighbors, rng.random(c) > 0.15


def spaces(
    kept: np.ndarray,
    neighbors: np.ndarray,
    alive: np.ndarray,
    n_random: int,
    iteration: int = 0,
    first_row: int = 0,
    cuts: tuple[int, ...] = (),
    searched: np.ndarray | None = None,
    ranks: tuple[int, ...] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    n, kept, neighbors = len(kept), read_only(kept), read_only(neighbors)
    size = kept.shape[1] * neighbors.shape[1] + n_random
    chosen = np.ones(n, np.uint8) if searched is None else searched
    sizes_by_rank = np.array(ranks or (neighbors.shape[1],) * kept.shape[1])
    candidates, sizes = np.full((n, size), -9, np.int32), np.zeros(n, np.int32)
    unevaluated = SearchSpaces(candidates, sizes, np.empty_like(candidates), np.empty(0), np.empty(candidates.shape))
    graph = Graph(neighbors, sizes_by_rank, alive)
    for a, b in zip((0, *cuts), (*cuts, n), strict=True):
        search.search_spaces(kept, chosen, graph, n_random, Draws(5, iteration, first_row), a, b, unevaluated)
    return candidates, sizes


@pytest.mark.parametrize(
    ("n", "c", "truncation", "neighborhood", "n_random"),
    [(40, 12, 3, 4, 0), (40, 12, 3, 4, 2), (1, 1, 1, 1, 1), (30, 5, 5, 5, 1), (50, 40, 1, 1, 1)],
)
def test_search_spaces(n: int, c: int, truncation: int, neighborhood: int, n_random: int) -> None:
    kept, neighbors, alive = draw_case(n, c, truncation, neighborhood, seed=n)
    candidates, sizes = spaces(kept, neighbors, alive, n_random, iteration=3, first_row=100)
    for i in range(n):
        random = [draw_integer(5, SEARCH, 3, 100 + i, k, c) for k in range(n_random)]
        space = candidates[i, : sizes[i]].tolist()
        assert len(set(space)) == len(space)
        assert set(space) == twin.search_space(kept[i], neighbors, alive, random)
        assert np.all(candidates[i, sizes[i] :] == -9)


def test_random_candidates_are_uniform_and_keyed_by_global_row() -> None:
    n, c = 6000, 20
    kept, neighbors = np.full((n, 1), -1, np.int32), np.arange(c, dtype=np.int32)[:, None]
    alive = np.ones(c, bool)
    candidates, sizes = spaces(kept, neighbors, alive, 1)
    assert np.all(sizes == 1)
    assert chisquare(np.bincount(candidates[:, 0], minlength=c)).pvalue > 1e-3
    again, _ = spaces(kept[:100], neighbors, alive, 1, first_row=700)
    np.testing.assert_array_equal(again[:, 0], candidates[700:800, 0])
    other, _ = spaces(kept, neighbors, alive, 1, iteration=1)
    assert np.mean(other[:, 0] == candidates[:, 0]) < 0.1
    cut, _ = spaces(kept, neighbors, alive, 1, cuts=(11, 3000))
    np.testing.assert_array_equal(cut, candidates)


def test_kept_components_alone() -> None:
    kept, neighbors, alive = draw_case(30, 9, 3, 2, seed=1)
    searched = np.arange(30, dtype=np.uint8) % 2
    candidates, sizes = spaces(kept, neighbors, alive, 1, searched=searched)
    every, every_sizes = spaces(kept, neighbors, alive, 1)
    for i in range(30):
        alone = [c for c in kept[i] if c >= 0 and alive[c]]
        expected = every[i, : every_sizes[i]].tolist() if searched[i] else alone
        assert candidates[i, : sizes[i]].tolist() == expected


def test_ranks_propose_as_many_neighbors_as_they_are_given() -> None:
    ranks = (5, 2, 1)
    kept, neighbors, alive = draw_case(60, 20, 3, 5, seed=3)
    candidates, sizes = spaces(kept, neighbors, alive, 0, ranks=ranks)
    for i in range(60):
        proposed = {
            c
            for c, size in zip(kept[i], ranks, strict=True)
            if c >= 0
            for c in neighbors[c, :size]
            if c >= 0 and alive[c]
        }
        assert set(candidates[i, : sizes[i]].tolist()) == proposed


@pytest.mark.parametrize("every", [2, 3, 5])
def test_resting_rows_take_turns(every: int) -> None:
    resting, first = np.ones(4000, np.uint8), 123
    resting[::7] = 0
    turns = np.zeros((every, 4000), np.uint8)
    for iteration in range(every):
        search.rows_to_search(resting, every, Draws(5, 10 + iteration, first), turns[iteration])
    assert np.all(turns[:, resting == 0] == 1)
    assert np.all(turns[:, resting == 1].sum(axis=0) == 1)
    assert chisquare(turns[:, resting == 1].sum(axis=1)).pvalue > 1e-3
    part = np.zeros(1000, np.uint8)
    search.rows_to_search(np.ones(1000, np.uint8), every, Draws(5, 10, first + 1000), part)
    assert np.all(part[resting[1000:2000] == 1] == turns[0, 1000:2000][resting[1000:2000] == 1])


def test_rows_rest_while_their_set_stays_the_same() -> None:
    before = np.array([[3, 1, 2], [3, 1, 2], [4, 5, -1], [4, 5, -1], [4, 5, 6]], np.int32)
    after = np.array([[1, 2, 3], [3, 1, 7], [5, 4, -1], [4, 5, 0], [4, 5, -1]], np.int32)
    resting = np.full(5, 9, np.uint8)
    search.unchanged_rows(before, after, resting)
    assert resting.tolist() == [1, 0, 1, 0, 0]


@pytest.mark.parametrize("cuts", [(0, 50), (0, 17, 50), (0, 1, 2, 49, 50)])
def test_grouping_transposes(cuts: tuple[int, ...]) -> None:
    c = 10
    kept, neighbors, alive = draw_case(50, c, 2, 3, seed=2)
    candidates, sizes = spaces(kept, neighbors, alive, 1)
    counts = np.zeros((len(cuts) - 1, c), np.int64)
    for k, (a, b) in enumerate(itertools.pairwise(cuts)):
        search.count_by_component(candidates, sizes, a, b, counts[k])
    indptr = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    members, slots = np.full(indptr[-1], -1, np.int32), np.full(candidates.shape, -1, np.int32)
    begins = indptr[:-1] + np.cumsum(counts, axis=0) - counts
    for k in reversed(range(len(cuts) - 1)):
        search.group_by_component(candidates, sizes, cuts[k], cuts[k + 1], begins[k].copy(), members, slots)
    for component in range(c):
        asking = [i for i in range(50) if component in candidates[i, : sizes[i]]]
        assert members[indptr[component] : indptr[component + 1]].tolist() == asking
    for i in range(50):
        for k in range(sizes[i]):
            owner = candidates[i, k]
            assert indptr[owner] <= slots[i, k] < indptr[owner + 1]
            assert members[slots[i, k]] == i


def unwritten(n: int, n_kept: int) -> Truncated:
    """Arrays for the kept components of n rows, with values that a kernel never writes."""
    components, responsibilities = np.full((n, n_kept), -7, np.int32), np.full((n, n_kept), np.nan)
    return Truncated(components, responsibilities, np.full(n, np.nan), np.full(n, np.nan))


def truncated(candidates: np.ndarray, sizes: np.ndarray, joints: np.ndarray, n_kept: int, cut: int = 0) -> Truncated:
    """`joints` has the shape of `candidates`."""
    n, width = candidates.shape
    slots = np.arange(n * width, dtype=np.int32).reshape(n, width)
    kept = unwritten(n, n_kept)
    for a, b in ((0, cut), (cut, n)):
        truncation.truncate(SearchSpaces(candidates, sizes, slots, joints.ravel(), np.empty_like(joints)), a, b, kept)
    return kept


@pytest.mark.parametrize("n_kept", [1, 3, 6])
@pytest.mark.parametrize("ties", [False, True])
def test_truncation(n_kept: int, ties: bool) -> None:
    rng = np.random.default_rng(n_kept)
    candidates = np.array([rng.permutation(15)[:6] for _ in range(60)], np.int32)
    sizes = rng.integers(0, 7, 60).astype(np.int32)
    joints = rng.integers(-5, 0, (60, 6)).astype(float) if ties else rng.normal(-500, 40, (60, 6))
    kept, q, best, energy = truncated(candidates, sizes, joints, n_kept, cut=23)
    for i in range(60):
        names = candidates[i, : sizes[i]].tolist()
        expected, weights, total = twin.truncate(dict(zip(names, joints[i, : sizes[i]], strict=True)), n_kept)
        free = n_kept - len(expected)
        assert kept[i].tolist() == expected + [-1] * free
        np.testing.assert_allclose(q[i], weights + [0.0] * free, rtol=1e-12, atol=1e-300)
        assert energy[i] == pytest.approx(total, rel=1e-13)
        assert best[i] == (joints[i, names.index(expected[0])] if expected else -np.inf)


def tallied(
    candidates: np.ndarray,
    sizes: np.ndarray,
    joints: np.ndarray,
    log_weights: np.ndarray,
    cut: int,
    similarity: str = "kl",
) -> tuple[np.ndarray, ...]:
    """Tallies of one block as (indptr, ids, sums, counts)."""
    n, width = candidates.shape
    c = len(log_weights)
    slots = np.arange(n * width, dtype=np.int32).reshape(n, width)
    kept, _, best, _ = truncated(candidates, sizes, joints, 1)
    members = np.argsort(kept[:, 0], kind="stable").astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(kept[:, 0], minlength=c))])
    kl = similarity == "kl"
    references, shifts = (best - log_weights[kept[:, 0]], log_weights) if kl else (np.zeros(n), np.zeros(c))
    lengths = np.zeros(c, np.int64)
    ids, sums, counts = np.empty(2 * c * c, np.int32), np.empty(2 * c * c), np.empty(2 * c * c, np.int64)
    spaces = SearchSpaces(candidates, sizes, slots, joints.ravel(), joints)
    for a, b in ((cut, c), (0, cut)):
        grouped, out = Regrouped(members, indptr), Tallies(indptr, ids, sums, counts)
        tallies.tally_divergences(grouped, spaces, references, shifts, a, b, a * c, lengths, out)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    used = np.concatenate([np.arange(ends[cut]), cut * c + np.arange(ends[c] - ends[cut])])
    return merged([(ends, ids[used], sums[used], counts[used])], c)


def merged(parts: list[tuple[np.ndarray, ...]], most: int) -> tuple[np.ndarray, ...]:
    """Sum of tallies as (indptr, ids, sums, counts), cut to `most` entries of a component."""
    begins = np.cumsum([0] + [len(part[1]) for part in parts])
    indptr = np.stack([part[0] + begin for part, begin in zip(parts, begins, strict=False)])
    arrays = [np.concatenate([part[k] for part in parts]) for k in (1, 2, 3)]
    out = [np.empty(indptr.shape[1], np.int64), *map(np.empty_like, arrays)]
    n = tallies.merge_tallies(Tallies(indptr, *arrays), 9, most, Tallies(*out))
    return (out[0], *(array[:n] for array in out[1:]))


def as_pairs(indptr: np.ndarray, ids: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> dict:
    owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)).tolist()
    return {(c, int(i)): (float(s), int(k)) for c, i, s, k in zip(owners, ids, sums, counts, strict=True)}


def two_blocks() -> tuple[list, list, np.ndarray]:
    """Rows of two blocks as kernels take them and as mappings from candidates to log-joints."""
    rng = np.random.default_rng(8)
    log_weights = np.log(rng.dirichlet(np.ones(9)))
    arrays, mappings = [], []
    for n in (40, 25):
        candidates = np.array([rng.permutation(8)[:4] for _ in range(n)], np.int32)  # component 8 is never asked for
        sizes = rng.integers(1, 5, n).astype(np.int32)
        joints = rng.normal(-30, 5, (n, 4))
        arrays.append((candidates, sizes, joints))
        mappings.append(
            [dict(zip(candidates[i, : sizes[i]].tolist(), joints[i].tolist(), strict=False)) for i in range(n)]
        )
    return arrays, mappings, log_weights


def assert_same(pairs: dict, expected: dict) -> None:
    assert list(pairs) == sorted(expected)
    for pair, (total, count) in expected.items():
        assert pairs[pair][1] == count
        assert pairs[pair][0] == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_tallies_and_their_sum() -> None:
    arrays, mappings, log_weights = two_blocks()
    a, b = (tallied(*part, log_weights, cut) for part, cut in zip(arrays, (0, 4), strict=True))
    assert_same(as_pairs(*a), twin.tally(mappings[0], log_weights))
    assert_same(as_pairs(*b), twin.tally(mappings[1], log_weights))
    pairs = as_pairs(*merged([a, b], 9))
    expected = twin.tally(mappings[0] + mappings[1], log_weights)
    assert_same(pairs, expected)
    for most in (1, 3):  # the smallest mean divergences of each component
        cut = {}
        for c in range(9):
            means = sorted((total / count, pair) for pair, (total, count) in expected.items() if pair[0] == c)
            cut |= {pair: expected[pair] for _, pair in means[:most]}
        assert_same(as_pairs(*merged([a, b], most)), cut)


def test_of_equal_means_those_of_smaller_numbers_are_kept() -> None:
    indptr, ids = np.array([0, 5]), np.array([6, 2, 8, 4, 1], np.int32)
    sums, counts = np.array([6.0, 2.0, 1.0, 4.0, 9.0]), np.array([3, 1, 2, 2, 1])
    assert merged([(indptr, ids, sums, counts)], 3)[1].tolist() == [2, 4, 8]
    assert merged([(indptr, ids, sums, counts)], 1)[1].tolist() == [8]


def test_tallies_of_joints() -> None:
    arrays, mappings, log_weights = two_blocks()
    pairs = as_pairs(*tallied(*arrays[0], log_weights, 0, similarity="joint"))
    assert_same(pairs, twin.tally(mappings[0], log_weights, similarity="joint"))


@pytest.mark.parametrize("kept", [1, 3, 7])
def test_truncation_of_all_joints(kept: int) -> None:
    rng = np.random.default_rng(kept)
    joints = rng.integers(-9, 0, (7, 50)).astype(float)  # with ties
    joints[3, :] = -np.inf  # a component that was dropped
    components, q, best, energy = out = unwritten(50, kept)
    for a, b in ((0, 20), (20, 50)):
        truncation.truncate_all(joints, a, b, out)
    for i in range(50):
        expected, weights, total = twin.truncate({c: joints[c, i] for c in range(7) if c != 3}, kept)
        responsibilities = dict(zip(components[i].tolist(), q[i].tolist(), strict=True))
        kept_ones = {c: responsibilities[c] for c in expected}
        assert kept_ones == pytest.approx(dict(zip(expected, weights, strict=True)), rel=1e-12)
        assert sum(responsibilities.values()) == pytest.approx(1.0)
        assert energy[i] == pytest.approx(total, rel=1e-13)
        assert best[i] == joints[:, i].max()
        if kept < 7:
            assert components[i].tolist() == expected


@pytest.mark.parametrize("size", [1, 3, 9])
def test_nearest_components(size: int) -> None:
    arrays, mappings, log_weights = two_blocks()
    indptr, ids, sums, counts = tallied(*arrays[0], log_weights, 0)
    old = np.column_stack([np.arange(9), np.full((9, size - 1), 7)]).astype(np.int32)
    nearest = np.full((9, size), -9, np.int32)
    tallies.nearest_components(Tallies(indptr, ids, sums, counts), 0, old, 0, 9, nearest)
    totals = twin.tally(mappings[0], log_weights)
    assert nearest.tolist() == [twin.nearest(c, totals, old[c].tolist(), size) for c in range(9)]
    assert nearest[8].tolist() == old[8].tolist()
    part = np.full((4, size), -9, np.int32)  # a block of components that does not begin at 0
    low, high = indptr[3], indptr[7]
    cut = Tallies(indptr[3:8] - low, ids[low:high], sums[low:high], counts[low:high])
    tallies.nearest_components(cut, 3, old[3:7], 2, 4, part)
    tallies.nearest_components(cut, 3, old[3:7], 0, 2, part)
    np.testing.assert_array_equal(part, nearest[3:7])
