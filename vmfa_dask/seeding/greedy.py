"""Greedy k-means++ on rows in memory (Arthur and Vassilvitskii 2007, with several candidates per seed as they propose).

May import: values, kernels, em.
"""

from __future__ import annotations

import math

import numpy as np

from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels import random, survey
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int64


def greedy_seeds(rows: Rows, scales: Float64, n_seeds: int, seed: int, attempt: int, cores: Cores) -> tuple[Int64, int]:
    """Draw seeds by greedy k-means++.

    Of 2 + log C candidates, drawn with probabilities proportional to squared distances to the seeds so far, the one
    that leaves the smallest sum of squared distances becomes a seed.

    Parameters
    ----------
    rows : (n, D) array
        At least `n_seeds` rows.
    scales : (D,) float64 array
        Units of the features.
    n_seeds : int
        C.
    seed, attempt : int
        Of which the draws are a hash.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (C,) int64 array, int
        Row numbers of the seeds, and how many of them are distinct.
    """
    n = len(rows)
    n_candidates = 2 + int(math.log(n_seeds))
    draws = np.empty((n_seeds, n_candidates))
    random.uniforms(seed, random.GREEDY, attempt, 0, draws)
    chosen = [min(int(draws[0, 0] * n), n - 1)]
    nearest = _distances(rows, chosen[0], scales, cores)
    n_distinct = 1
    for step in range(1, n_seeds):
        edges = np.cumsum(nearest)
        if edges[-1] > 0:
            candidates = np.minimum(np.searchsorted(edges, draws[step] * edges[-1], side="right"), n - 1)
            n_distinct += 1
        else:  # every row lies on a seed
            candidates = np.minimum((draws[step, :1] * n).astype(np.int64), n - 1)
        left = [np.minimum(nearest, _distances(rows, int(row), scales, cores)) for row in candidates]
        best = int(np.argmin([distances.sum() for distances in left]))
        chosen.append(int(candidates[best]))
        nearest = left[best]
    return np.array(chosen), n_distinct


def nearest_seeds(rows: Rows, seeds: Int64, scales: Float64, cores: Cores) -> Int64:
    """The nearest seed of each row.

    Parameters
    ----------
    rows : (n, D) array
        The rows.
    seeds : (C,) int64 array
        Row numbers of the seeds.
    scales : (D,) float64 array
        Units of the features.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (n,) int64 array
        Index into `seeds`.
    """
    owner, nearest = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    for k, row in enumerate(seeds.tolist()):
        distances = _distances(rows, row, scales, cores)
        nearer = distances < nearest
        owner[nearer], nearest[nearer] = k, distances[nearer]
    return owner


def _distances(rows: Rows, row: int, scales: Float64, cores: Cores) -> Float64:
    """Squared distances of all rows to one of them."""
    found, center = np.empty(len(rows)), rows[row].astype(np.float64)
    cores.run(
        lambda a, b: survey.squared_distances(rows, center, scales, a, b, found),
        cores.split(len(rows), 2 * rows.shape[1], parts_per_thread=1),
    )
    return found
