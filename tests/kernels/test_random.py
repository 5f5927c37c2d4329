"""The hash behind every draw: uniform, keyed, independent of how items are cut into calls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from vmfa_dask.kernels import random

LEVEL = 1e-3


def uniforms(
    first: int, n: int, k: int, seed: int = 1, stream: int = random.LOADINGS, iteration: int = 0
) -> np.ndarray:
    values = np.full((n, k), np.nan)
    random.uniforms(seed, stream, iteration, first, values)
    return values


@pytest.mark.parametrize(("state", "output"), [(0, 0xE220A8397B1DCDAF), (0x9E3779B97F4A7C15, 0x6E789E6AA1B965F4)])
def test_mixing_is_splitmix64(state: int, output: int) -> None:
    # The first two outputs of the published generator that starts at 0.
    assert int(random._mix(np.uint64(state))) == output


def test_uniforms_are_uniform() -> None:
    values = uniforms(0, 20_000, 3)
    assert values.min() >= 0
    assert values.max() < 1
    for k in range(3):
        assert chisquare(np.bincount((values[:, k] * 50).astype(int), minlength=50)).pvalue > LEVEL


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (uniforms(0, 20_000, 2)[:, 0], uniforms(0, 20_000, 2)[:, 1]),
        (uniforms(0, 20_000, 1)[:, 0], uniforms(1, 20_000, 1)[:, 0]),
        (uniforms(0, 20_000, 1)[:, 0], uniforms(0, 20_000, 1, seed=2)[:, 0]),
        (uniforms(0, 20_000, 1)[:, 0], uniforms(0, 20_000, 1, stream=random.SEARCH)[:, 0]),
        (uniforms(0, 20_000, 1)[:, 0], uniforms(0, 20_000, 1, iteration=1)[:, 0]),
    ],
    ids=["draw", "item", "seed", "stream", "iteration"],
)
def test_neighbouring_keys_are_independent(a: np.ndarray, b: np.ndarray) -> None:
    cells = (a * 12).astype(int) * 12 + (b * 12).astype(int)
    assert chisquare(np.bincount(cells, minlength=144)).pvalue > LEVEL


def test_draws_do_not_depend_on_how_items_are_cut() -> None:
    uncut = uniforms(0, 100, 3)
    np.testing.assert_array_equal(np.vstack([uniforms(0, 37, 3), uniforms(37, 63, 3)]), uncut)
    np.testing.assert_array_equal(uniforms(0, 100, 2), uncut[:, :2])


def distinct(first: int, n: int, k: int, below: int, preset: int = -1) -> np.ndarray:
    ids = np.full((n, k), -1, np.int32)
    ids[:, 0] = preset
    random.distinct_integers(3, random.POSTERIOR, 0, first, below, ids)
    return ids


def test_distinct_integers() -> None:
    ids = distinct(0, 8000, 4, 25)
    assert ids.min() >= 0
    assert ids.max() < 25
    assert all(len(set(row)) == 4 for row in ids.tolist())
    for k in range(4):
        assert chisquare(np.bincount(ids[:, k], minlength=25)).pvalue > LEVEL
    np.testing.assert_array_equal(np.vstack([distinct(0, 100, 4, 25), distinct(100, 200, 4, 25)]), ids[:300])


def test_preset_entries_stay_and_are_never_repeated() -> None:
    ids = distinct(0, 4000, 3, 6, preset=2)
    assert np.all(ids[:, 0] == 2)
    assert not np.any(ids[:, 1:] == 2)
    assert chisquare(np.bincount(ids[:, 1], minlength=6)[[0, 1, 3, 4, 5]]).pvalue > LEVEL


def test_as_many_as_there_are_gives_permutations() -> None:
    ids = distinct(0, 50, 7, 7)
    np.testing.assert_array_equal(np.sort(ids, axis=1), np.tile(np.arange(7), (50, 1)))


@pytest.mark.parametrize("below", [1, 2, 1000, 2**31 - 1, 2**32])
def test_integers_stay_below(below: int) -> None:
    values = np.array([random.draw_integer(0, random.SEARCH, 0, i, 0, below) for i in range(3000)])
    assert values.min() >= 0
    assert values.max() < below
    assert abs(values.mean() / below - (0.5 - 0.5 / below)) < 0.03


def normals(first: int, n: int, k: int) -> np.ndarray:
    values = np.full((n, k), np.nan)
    random.normals(1, random.DRAWN_ROWS, 0, first, values)
    return values


def test_normals_are_normal() -> None:
    values = normals(0, 20_000, 3)
    for k in range(3):
        assert kstest(values[:, k], "norm").pvalue > LEVEL
    for a, b in ((0, 1), (1, 2), (0, 2)):
        quadrants = np.bincount(2 * (values[:, a] > 0) + (values[:, b] > 0), minlength=4)
        assert chisquare(quadrants).pvalue > LEVEL
        assert abs(np.corrcoef(values[:, a] ** 2, values[:, b] ** 2)[0, 1]) < 5 / np.sqrt(20_000)


def test_normals_do_not_depend_on_how_items_are_cut() -> None:
    uncut = normals(0, 100, 4)
    np.testing.assert_array_equal(np.vstack([normals(0, 37, 4), normals(37, 63, 4)]), uncut)
    np.testing.assert_array_equal(normals(0, 100, 3), uncut[:, :3])
