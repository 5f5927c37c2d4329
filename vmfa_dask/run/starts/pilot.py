"""The start of a run with few components: short runs on a sample of the rows, in the memory of one task.

With few components a bad start shows: one group of rows without a component of its own is a large part of all. Several
attempts from greedy k-means++ seeds are trained for some passes of exact EM; the best one goes on, and components that
are stuck are moved (`seeding.moves`) until no move helps. The run then begins with these parameters.

May import: values, kernels, em, seeding, run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import Rows, working_rows
from vmfa_dask.kernels import random
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start, write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.seeding.greedy import greedy_seeds, nearest_seeds
from vmfa_dask.seeding.moves import Move, propose_moves
from vmfa_dask.values import Float64, Int64, Mixture

logger = logging.getLogger(__name__)

# Passes of an attempt, after a move, and in the end, at most.
_ATTEMPT_PASSES, _MOVE_PASSES, _MOST_PASSES = 15, 10, 300
# Tolerance of the last training, in that of the run: a pass over the sample costs next to nothing.
_FINER = 0.02
# Moves that are tried in vain before the components count as settled.
_PATIENCE = 3
# First loadings, in standard deviations of the noise: small, so that rows and not chance tell where they point.
_FIRST_LOADINGS = 0.3
# Smallest noise variance in the pilot, as a part of the variance within clusters: groups of a few equal rows must not
# look better than real ones.
_FLOOR = 0.05
# Rows that the variance of all clusters counts for in that of a single one.
_PRIOR_ROWS = 5


def run_pilot(context: RunContext, *parts: Rows) -> int:
    """Write version 0 of a run from the sampled rows of all groups. This is a task.

    Parameters
    ----------
    context : RunContext
        The run, after the survey of its rows.
    *parts : (n, D) arrays
        Sampled rows of each group, as they are stored.

    Returns
    -------
    int
        The number of distinct seeds.
    """
    pilot = _Pilot(context, np.concatenate(parts))
    attempts = [pilot.attempt(k) for k in range(context.settings.n_init)]
    best = max(attempts, key=lambda attempt: attempt[1])
    mixture, free_energy = pilot.move(*best[:2])
    mixture, free_energy = pilot.train(mixture, _MOST_PASSES, _FINER)
    logger.info("pilot on %d rows: free energy %.4f per row", len(pilot.x), free_energy)
    start = Start(mixture.with_every_component_alive(len(pilot.x)))
    write_given_start(context.storage, context.settings, context.plan, start, pilot.surveyed)
    return max(n_distinct for _, _, n_distinct in attempts)


class _Pilot:
    """EM, attempts and moves on a sample.

    Parameters
    ----------
    context : RunContext
        The run, after the survey of its rows.
    rows : (n, D) array
        The sample, as stored.
    """

    def __init__(self, context: RunContext, rows: Rows) -> None:
        self.context, self.rows, self.source = context, rows, ArrayRows(rows)
        self.source.feature_shape = context.rows.feature_shape
        settings = context.settings
        c, usual = settings.n_components, Settings(settings.n_components, standardize=settings.standardize).tol
        self.settings = replace(
            settings,
            search="exhaustive",
            truncation=c,
            neighborhood=1,
            empty_components="drop",
            tol=max(settings.tol, usual),  # what is finer is up to the run
        )
        self.plan = make_plan(self.source, self.settings, 1)
        self.surveyed = context.storage.read(addresses.RowSurvey())
        self.known: dict[str, Any] = dict(self.surveyed)
        self.offset: Float64 = self.known["offset"]
        self.x: Float64 = rows.astype(np.float64) - self.offset
        self.scales = context.scales()

    def train(self, mixture: Mixture, most: int, part: float = 1.0) -> tuple[Mixture, float]:
        """Exact EM until the free energy has converged by a part of the run's tolerance; it, per row, comes too."""
        storage = MemoryStorage()
        write_given_start(storage, self.settings, self.plan, Start(mixture), self.known)
        sample = RunContext(self.source, self.settings, self.plan, storage, self.context.cores)
        executor, before = SerialExecutor(sample), -np.inf
        for version in range(most):
            report = run_pass(executor, Step(version, version, 0, search=False, update=True))[0]
            free_energy = report.tally.free_energy / report.tally.n_rows
            gain = self.settings.gain(free_energy, before, report.n_features)
            if gain < part * self.settings.tol or version == most - 1:
                break
            before = free_energy
        return sample.mixture(version), free_energy

    def attempt(self, number: int) -> tuple[Mixture, float, int]:
        """A short run from greedy seeds: parameters, free energy, distinct seeds."""
        settings = self.settings
        seeds, n_distinct = greedy_seeds(
            self.rows, self.scales, settings.n_components, settings.random_state, number, self.context.cores
        )
        owners = nearest_seeds(self.rows, seeds, self.scales, self.context.cores)
        mixture, free_energy = self.train(self._of_clusters(owners, number), _ATTEMPT_PASSES)
        return mixture, free_energy, n_distinct

    def _of_clusters(self, owners: Int64, number: int) -> Mixture:
        """A component per cluster, with the variances within all of them."""
        settings, d = self.settings, self.x.shape[1]
        c = settings.n_components
        counts = np.bincount(owners, minlength=c)
        means = np.zeros((c, d))
        np.add.at(means, owners, self.x)
        means /= np.maximum(counts, 1)[:, None]
        within = np.square(self.x - means[owners]).mean(axis=0)
        self.within = np.maximum(within, self.context.lowest_variances())
        floors = np.maximum(self.context.lowest_variances(), _FLOOR * self.within)
        self.known["floors"] = floors
        return self._mixture(np.maximum(counts, 1), means, np.tile(self.within, (c, 1)), number)

    def _mixture(self, counts: Int64, means: Float64, noise: Float64, number: int) -> Mixture:
        """First parameters of components, of the covariance type of the run."""
        settings, (c, d) = self.settings, means.shape
        loadings = np.empty((c, settings.n_factors * d))
        random.uniforms(settings.random_state, random.LOADINGS, 1 + number, 0, loadings)
        loadings = _FIRST_LOADINGS * (2 * loadings.reshape(c, settings.n_factors, d) - 1) * np.sqrt(noise)[:, None]
        return self._made(counts / counts.sum(), means, loadings, noise)

    def _made(self, weights: Float64, means: Float64, loadings: Float64, noise: Float64) -> Mixture:
        """A mixture of the run's type and precision."""
        settings, dtype = self.settings, np.dtype(self.settings.precision)
        if settings.covariance_type == "isotropic":
            noise = np.mean(noise / self.scales**2, axis=1, keepdims=True) * self.scales**2
        if settings.noise == "shared":
            noise = np.tile(weights @ noise, (len(weights), 1))
        if not settings.learn_weights:
            weights = np.full(len(weights), 1.0 / len(weights))
        return Mixture(
            weights,
            means.astype(dtype),
            loadings.astype(dtype),
            noise.astype(dtype),
            self.source.feature_shape,
            self.offset,
        )

    def move(self, mixture: Mixture, free_energy: float) -> tuple[Mixture, float]:
        """Move components that are stuck, as long as that raises the free energy."""
        failures, tried = 0, set[tuple[int, int]]()
        while failures < _PATIENCE:
            moves = [m for m in self._proposals(mixture) if (m.split, m.removed) not in tried]
            if not moves:
                break
            moves = moves[:1] if failures else moves
            moved, reached = self.train(self._after(mixture, moves), _MOVE_PASSES)
            n_features = self.x.shape[1]
            if self.settings.gain(reached, free_energy, n_features) > self.settings.tol:
                logger.debug("pilot: %d moves, free energy %.4f to %.4f", len(moves), free_energy, reached)
                mixture, free_energy, failures, tried = moved, reached, 0, set()
            else:
                failures += 1
                tried.update((m.split, m.removed) for m in moves[:1])
        return mixture, free_energy

    def _proposals(self, mixture: Mixture) -> list[Move]:
        packed = pack_mixture(mixture, self.context.cores)
        rows = working_rows(self.rows, self.offset, self.settings.precision)
        joints = evaluate_all_joints(rows, packed, self.context.cores)
        return propose_moves(
            self.x, joints, mixture.means.astype(np.float64), mixture.noise_variances.astype(np.float64)
        )

    def _after(self, mixture: Mixture, moves: Sequence[Move]) -> Mixture:
        """The mixture with some components moved; loadings of both halves begin anew."""
        weights = mixture.weights.copy()
        means, loadings, noise = (
            getattr(mixture, name).astype(np.float64) for name in ("means", "loadings", "noise_variances")
        )
        prior = mixture.weights @ noise
        fresh = self._mixture(np.ones(len(weights), np.int64), means, noise, 0).loadings
        for move in moves:
            joined, share = weights[move.removed] + weights[move.heir], weights[move.heir]
            part = share / joined if joined > 0 else 1.0
            difference = means[move.removed] - means[move.heir]
            means[move.heir] += (1 - part) * difference
            noise[move.heir] = part * noise[move.heir] + (1 - part) * noise[move.removed]
            noise[move.heir] += part * (1 - part) * difference**2
            weights[move.heir] = joined
            whole, n = weights[move.split], len(move.halves.rows) + len(move.halves.rest)
            for k, rows in ((move.split, move.halves.rows), (move.removed, move.halves.rest)):
                variances = self.x[rows].var(axis=0)
                means[k] = self.x[rows].mean(axis=0)
                noise[k] = (len(rows) * variances + _PRIOR_ROWS * prior) / (len(rows) + _PRIOR_ROWS)
                loadings[k], weights[k] = fresh[k], whole * len(rows) / n
        return self._made(weights / weights.sum(), means, loadings, np.maximum(noise, self.known["floors"]))
