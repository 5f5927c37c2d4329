"""The distribution of AFK-MC² seeds (Bachem et al. 2016) on a handful of rows, by transition matrices."""

from __future__ import annotations

import itertools

import numpy as np

from vmfa_dask.values import Float64


def squared_distances(rows: Float64) -> Float64:
    """Squared Euclidean distances of rows (n, D) among each other, (n, n) float64."""
    return np.array([[np.sum((a - b) ** 2) for b in rows] for a in rows])


def proposal(distances: Float64) -> Float64:
    """Probabilities ½ d²/Σd² + ½ 1/n of the rows, (n,), from their squared distances (n,) to the first seed."""
    return 0.5 * distances / distances.sum() + 0.5 / len(distances)


def last_state(target: Float64, proposed: Float64, length: int) -> Float64:
    """Distribution of the last state of a Metropolis-Hastings chain with independent proposals.

    Parameters
    ----------
    target : (n,) float64
        Unnormalised probabilities that the chain aims at.
    proposed : (n,) float64
        Probabilities of the proposals.
    length : int
        Number of proposals, of which the first is the start.

    Returns
    -------
    (n,) float64 array
    """
    n = len(target)
    transition = np.zeros((n, n))
    for i, j in itertools.product(range(n), range(n)):
        if i == j:
            continue
        ratio = target[j] * proposed[i] / (target[i] * proposed[j]) if target[i] > 0 else 1.0
        transition[i, j] = proposed[j] * min(1.0, ratio)
    for i in range(n):
        transition[i, i] = 1.0 - transition[i].sum()
    return proposed @ np.linalg.matrix_power(transition, length - 1)


def third_seed(rows: Float64, length: int) -> tuple[Float64, Float64]:
    """Distributions of the seeds that follow a uniform first one.

    Parameters
    ----------
    rows : (n, D) float64
    length : int
        Length of the chains.

    Returns
    -------
    second : (n, n) float64 array
        Of the second seed, given each first one.
    third : (n,) float64 array
        Of the third seed, over all first and second ones.
    """
    distances, n = squared_distances(rows), len(rows)
    second, third = np.zeros((n, n)), np.zeros(n)
    for first in range(n):
        proposed = proposal(distances[first])
        second[first] = last_state(distances[first], proposed, length)
        for other in range(n):
            nearest = np.minimum(distances[first], distances[other])
            third += second[first, other] / n * last_state(nearest, proposed, length)
    return second, third
