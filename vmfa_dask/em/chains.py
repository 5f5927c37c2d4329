"""The Markov chains of AFK-MC² on the candidates that were gathered (Bachem et al. 2016, Algorithm 1).

May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.seeding import Candidates, first_seed
from vmfa_dask.em.storage import START
from vmfa_dask.kernels import random
from vmfa_dask.values import Float64, Int64

# Chains whose candidates are compared by one matrix product.
_CHAINS_TOGETHER = 32
# Part of |a|² + |b|² below which a squared distance from a float32 product has too few digits left.
_LOST_DIGITS = 1e-4


def run_chains(context: RunContext, parts: Sequence[Candidates], masses: Sequence[float]) -> tuple[Int64, Float64, int]:
    """AFK-MC² on the gathered candidates: rows (C,) and values (C, D) of the seeds, and how many are distinct."""
    settings, n_rows = context.settings, context.plan.n_rows
    m, c = settings.chain_length, settings.n_components
    order = np.argsort(np.concatenate([p.draws for p in parts]), kind="stable")
    rows = np.concatenate([p.rows for p in parts])[order]
    values = np.concatenate([p.values for p in parts])[order]
    total = float(np.sum(masses))
    mass = np.concatenate([p.distances for p in parts])[order]
    share = mass / total if total > 0 else np.full(len(rows), 1.0 / n_rows)
    proposal = 0.5 * share + 0.5 / n_rows
    accept = np.empty((len(rows), 1))
    random.uniforms(settings.random_state, random.CHAINS, 0, 0, accept)
    seeds, seed_rows = np.empty((c, values.shape[1])), np.empty(c, np.int64)
    center = values.mean(axis=0) if len(values) else np.zeros(values.shape[1])
    values -= center
    seeds[0] = first_seed(context) - context.offset() - center
    seed_rows[0] = context.storage.read(START, 0, 0)["first_row"][0]
    n_distinct = 1
    for low in range(1, c, _CHAINS_TOGETHER):
        high = min(low + _CHAINS_TOGETHER, c)
        batch = slice((low - 1) * m, (high - 1) * m)
        points = values[batch]
        nearest = squared_distances(points, seeds[:low]).min(axis=1)
        between = squared_distances(points, points)
        for k in range(low, high):
            chain = range((k - low) * m, (k - low + 1) * m)
            state = _walk(nearest, proposal[batch], accept[batch, 0], chain)
            n_distinct += int(nearest[state] > 0)
            seeds[k], seed_rows[k] = points[state], rows[batch][state]
            nearest = np.minimum(nearest, between[:, state])
    return seed_rows, seeds + center, n_distinct


def _walk(nearest: Float64, proposal: Float64, accept: Float64, chain: range) -> int:
    """One Metropolis-Hastings chain over its candidates; returns the last state."""
    state = chain[0]
    for candidate in chain[1:]:
        odds, needed = nearest[candidate] * proposal[state], nearest[state] * proposal[candidate]
        if needed == 0 or odds > accept[candidate] * needed:
            state = candidate
    return state


def squared_distances(points: Float64, centers: Float64) -> Float64:
    """Squared distances (points, centers) by one float32 matrix product.

    Where the difference has lost its digits it is formed again directly: equal rows are at distance zero.
    """
    scale = np.einsum("ij,ij->i", points, points)[:, None] + np.einsum("ij,ij->i", centers, centers)
    squared = scale - 2.0 * (points.astype(np.float32) @ centers.T.astype(np.float32))
    for i, j in np.argwhere(squared <= _LOST_DIGITS * scale):
        squared[i, j] = np.sum((points[i] - centers[j]) ** 2)
    result: Float64 = squared
    return result
