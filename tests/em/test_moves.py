"""Moves: what a split gains and what a component is worth, without EM."""

from __future__ import annotations

import numpy as np
import pytest

from vmfa_dask.seeding.moves import propose_moves, split_gain


def log_joints(x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Of equally weighted diagonal Gaussians."""
    t = x[None] - means[:, None]
    quadratic = (t**2 / variances[:, None]).sum(axis=2)
    return -0.5 * (quadratic + np.log(2 * np.pi * variances).sum(axis=1)[:, None]) - np.log(len(means))


def groups(*centers: float, n: int = 100, d: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, d)) + np.array([c, *[0] * (d - 1)]) for c in centers])


@pytest.mark.parametrize("seed", range(5))
def test_one_gaussian_is_not_worth_a_split(seed: int) -> None:
    assert split_gain(np.random.default_rng(seed).normal(size=400))[0] < 0


def test_two_groups_are_parted_between_them() -> None:
    values = np.random.default_rng(0).permutation(np.concatenate([np.linspace(-1, 1, 60), np.linspace(9, 11, 40)]))
    gain, place, order = split_gain(values)
    assert gain > 100
    assert place == 60
    assert values[order[:place]].max() < 5


def test_what_is_stuck_is_found() -> None:
    """Component 0 covers two groups, 1 and 2 share one, 3 has its own."""
    x = groups(-30, -10, 20, 50)
    means = np.array([[-20.0, 0, 0], [19.5, 0, 0], [20.5, 0, 0], [50.0, 0, 0]])
    variances = np.array([[101.0, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]])
    moves = propose_moves(x, log_joints(x, means, variances), means, variances)
    assert len(moves) == 1
    move = moves[0]
    assert move.split == 0
    assert {move.removed, move.heir} == {1, 2}
    assert sorted((set(move.halves.rows.tolist()), set(move.halves.rest.tolist())), key=min) == [
        set(range(100)),
        set(range(100, 200)),
    ]


def test_what_fits_stays() -> None:
    x = groups(-20, 0, 20)
    means, variances = np.array([[-20.0, 0, 0], [0, 0, 0], [20.0, 0, 0]]), np.ones((3, 3))
    assert propose_moves(x, log_joints(x, means, variances), means, variances) == []


def test_components_without_rows_are_given_away_first() -> None:
    x = groups(-20, 0, 20)
    means = np.array([[-10.0, 0, 0], [20.0, 0, 0], [500.0, 0, 0]])
    variances = np.array([[101.0, 1, 1], [1, 1, 1], [1, 1, 1]])
    joints = log_joints(x, means, variances)
    joints[2] = -np.inf  # dropped
    moves = propose_moves(x, joints, means, variances)
    assert [(move.split, move.removed) for move in moves] == [(0, 2)]


def test_one_component_has_nothing_to_move() -> None:
    x = groups(0, 10)
    assert propose_moves(x, log_joints(x, np.zeros((1, 3)), np.ones((1, 3))), np.zeros((1, 3)), np.ones((1, 3))) == []
