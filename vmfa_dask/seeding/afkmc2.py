"""AFK-MC² seeding (Bachem et al. 2016, Algorithm 1), out of core (paper, section on the algorithmic realization).

The proposal does not depend on the state of the chains, so the candidates of *all* chains are drawn at once and
gathered in one pass over the rows; the chains then run on that small array. May import: values, kernels, runtime, em.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import LARGEST_SPAN, Rows, read_only, working_rows
from vmfa_dask.kernels import random, survey
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.sizes import Sized
from vmfa_dask.values import Float64, FloatArray, Int64, Mixture

# Chains after which their seeds are compared with the candidates of all later ones.
_CHAINS_TOGETHER = 32


@dataclass(frozen=True)
class Candidates(Sized):
    """Candidates of the chains that lie in one group.

    Parameters
    ----------
    draws : (K,) int64 array
        Numbers of their draws: chain and place in the chain.
    rows : (K,) int64 array
        Their row numbers.
    values : (K, D) array
        The rows as kernels take them (`em.rows.working_rows`): for bytes a quarter of the size of float32.
    distances : (K,) float64 array
        Squared distances to the first seed.
    """

    draws: Int64
    rows: Int64
    values: Rows
    distances: Float64


@dataclass(frozen=True)
class Seeds:
    """Seeds of a run.

    Parameters
    ----------
    rows : (C,) int64 array
        Their row numbers.
    values : (C, D) float64 array
        The rows, relative to the offset.
    n_distinct : int
        How many of them are distinct.
    """

    rows: Int64
    values: Float64
    n_distinct: int


def draw_candidates(n_components: int, chain_length: int, random_state: int) -> Float64:
    """Uniform numbers for all candidates of all chains.

    Parameters
    ----------
    n_components, chain_length : int
        C and the length m of a chain.
    random_state : int
        Seed of the run.

    Returns
    -------
    ((C − 1)·m, 2) float64 array
        Which part of the proposal ½ d²/Σd² + ½ 1/N a candidate comes from, and where it lies in it.
    """
    numbers = np.empty(((n_components - 1) * chain_length, 2))
    random.uniforms(random_state, random.SEED_ROWS, 1, 0, numbers)
    return numbers


def run_chains(
    parts: Sequence[Candidates],
    total_distance: float,
    n_rows: int,
    first_seed: Float64,
    first_row: int,
    n_components: int,
    chain_length: int,
    random_state: int,
    scales: Float64,
    cores: Cores,
) -> Seeds:
    """Run the chains on the gathered candidates.

    Parameters
    ----------
    parts : sequence of Candidates
        Candidates of all groups.
    total_distance : float
        Σ d² of all rows to the first seed.
    n_rows : int
        N.
    first_seed : (D,) float64 array
        The first seed, relative to the offset.
    first_row : int
        Its row number.
    n_components, chain_length, random_state : int
        C, m and the seed of the run.
    scales : (D,) float64 array
        Units of the features, in which distances are measured.
    cores : Cores
        Threads of this process.

    Returns
    -------
    Seeds
    """
    m, c = chain_length, n_components
    order = np.argsort(np.concatenate([p.draws for p in parts]), kind="stable")
    rows = np.concatenate([p.rows for p in parts])[order]
    values = np.concatenate([p.values for p in parts])[order]
    mass = np.concatenate([p.distances for p in parts])[order]
    share = mass / total_distance if total_distance > 0 else np.full(len(rows), 1.0 / n_rows)
    proposal = 0.5 * share + 0.5 / n_rows
    accept = np.empty((len(rows), 1))
    random.uniforms(random_state, random.CHAINS, 0, 0, accept)
    seeds, seed_rows = np.empty((c, values.shape[1])), np.empty(c, np.int64)
    wide = values.dtype == np.float64 and len(values)
    center = values.mean(axis=0) if wide else np.zeros(values.shape[1])
    points = _points(values, center)
    seeds[0], seed_rows[0] = first_seed, first_row
    nearest = squared_distances(points, seeds[:1] - center, scales, cores).min(axis=1)
    n_distinct = 1
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
            distances = squared_distances(points[rest], seeds[low:high] - center, scales, cores)
            nearest[rest] = np.minimum(nearest[rest], distances.min(axis=1))
    return Seeds(seed_rows, seeds, n_distinct)


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
    """Lower the distances to the nearest seed where a new one is nearer."""
    distances = np.empty(len(points))
    survey.squared_distances(points, seed.astype(np.float64), scales, 0, len(points), distances)
    np.minimum(nearest, distances, out=nearest)


def squared_distances(points: FloatArray, centers: FloatArray, scales: Float64, cores: Cores) -> Float64:
    """Squared distances between points and centres, by the log-joint kernel of unit Gaussians.

    Parameters
    ----------
    points : (n, D) array
        Points, in a dtype that kernels take.
    centers : (K, D) array
        Centres.
    scales : (D,) float64 array
        Units of the features.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (n, K) float64 array

    Notes
    -----
    A matrix product would be faster, but its bits depend on the number of threads that BLAS happens to have.
    Differences are formed before they are squared, so equal rows are at distance zero.
    """
    k, d = len(centers), points.shape[1]
    dtype: type[np.floating[Any]] = np.float64 if points.dtype == np.float64 else np.float32
    means = centers.astype(dtype)
    units = np.tile(np.square(scales).astype(dtype), (k, 1))
    unit = Mixture(np.full(k, 1.0 / k), means, np.zeros((k, 0, d), dtype), units)
    packed = pack_mixture(unit, cores)
    return 2.0 * (packed.log_norms[:, None] - evaluate_all_joints(points, packed, cores)).T
