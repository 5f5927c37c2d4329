"""The Markov chains of AFK-MC² on the candidates that were gathered (Bachem et al. 2016, Algorithm 1).

May import: values, kernels, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vmfa_dask.em.context import RunContext
from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.precision import derive
from vmfa_dask.em.ranges import LARGEST_SPAN
from vmfa_dask.em.rows import Rows, read_only, working_rows
from vmfa_dask.em.seeding import Candidates, first_seed
from vmfa_dask.em.storage import START
from vmfa_dask.kernels import random, survey
from vmfa_dask.values import Float64, FloatArray, Int64, Mixture

# Chains after which their seeds are compared with the candidates of all later ones.
_CHAINS_TOGETHER = 32


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
    wide = values.dtype == np.float64 and len(values)
    center = values.mean(axis=0) if wide else np.zeros(values.shape[1])
    points = _points(values, center)
    seeds[0] = first_seed(context) - context.offset()
    seed_rows[0] = context.storage.read(START, 0, 0)["first_row"][0]
    nearest = squared_distances(context, points, seeds[:1] - center).min(axis=1)
    n_distinct, scales = 1, context.scales()
    for low in range(1, c, _CHAINS_TOGETHER):
        high = min(low + _CHAINS_TOGETHER, c)
        stop = (high - 1) * m
        for k in range(low, high):
            state = _walk(nearest, proposal, accept[:, 0], range((k - 1) * m, k * m))
            n_distinct += int(nearest[state] > 0)
            seeds[k], seed_rows[k] = values[state], rows[state]
            _bring_nearer(nearest[k * m : stop], points[k * m : stop], points[state], scales)
        rest = slice(stop, None)
        if high < c:
            found = squared_distances(context, points[rest], seeds[low:high] - center)
            nearest[rest] = np.minimum(nearest[rest], found.min(axis=1))
    return seed_rows, seeds, n_distinct


def _points(values: Rows, center: Float64) -> Rows:
    """Candidates as distances take them: in float32, which is enough, unless squares of them would overflow."""
    wide = values.dtype.itemsize >= 4 and np.abs(values.astype(np.float64)).max(initial=0.0) > LARGEST_SPAN["float32"]
    return read_only(values.astype(np.float64) - center) if wide else working_rows(values, center, "float32")


def _walk(nearest: Float64, proposal: Float64, accept: Float64, chain: range) -> int:
    """One Metropolis-Hastings chain over its candidates; returns the last state."""
    state = chain[0]
    for candidate in chain[1:]:
        odds, needed = nearest[candidate] * proposal[state], nearest[state] * proposal[candidate]
        if needed == 0 or odds > accept[candidate] * needed:
            state = candidate
    return state


def _bring_nearer(nearest: Float64, points: FloatArray, seed: FloatArray, scales: Float64) -> None:
    """Count a new seed in."""
    found = np.empty(len(points))
    survey.squared_distances(points, seed.astype(np.float64), scales, 0, len(points), found)
    np.minimum(nearest, found, out=nearest)


def squared_distances(context: RunContext, points: FloatArray, centers: FloatArray) -> Float64:
    """Squared distances (points, centers) in units of the features, by the log-joint kernel of unit Gaussians.

    A matrix product would be faster, but its bits depend on the number of threads that BLAS happens to have.
    Differences are formed before they are squared, so equal rows are at distance zero.
    """
    k, d = len(centers), points.shape[1]
    dtype: type[np.floating[Any]] = np.float64 if points.dtype == np.float64 else np.float32
    means = centers.astype(dtype)
    units = np.tile(np.square(context.scales()).astype(dtype), (k, 1))
    unit = Mixture(np.full(k, 1.0 / k), means, np.zeros((k, 0, d), dtype), units)
    precision = derive(unit, context.cores)
    return 2.0 * (precision.log_norms[:, None] - evaluate_all_joints(points, precision, context.cores)).T
