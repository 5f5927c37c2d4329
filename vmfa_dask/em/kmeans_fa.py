"""k-means and a factor analyzer per cluster as the start of a run (paper, appendix on algorithms: k-means+FA).

Both are EM with other settings, so both run as stages, out of core and on all workers. k-means is EM of isotropic
components with one shared variance and equal weights in which each row keeps its nearest component; the factor
analyzers are EM of the run's own model in which each row keeps its cluster, so that a pass costs one joint per row.
May import: values, kernels, em.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from vmfa_dask.em.block import Stopwatch
from vmfa_dask.em.context import RunContext, Step
from vmfa_dask.em.executor import Executor, StageExecutor
from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.iteration import run_pass
from vmfa_dask.em.rows import read_ahead, working_rows
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.stages import Stage, StageStorage
from vmfa_dask.em.start import Start, fill_components, write_given_start, write_start
from vmfa_dask.em.storage import GRAPH, PARAMETERS, POSTERIOR, START

logger = logging.getLogger(__name__)

# scikit-learn's limit for k-means; a factor analyzer needs fewer passes.
_MOST_PASSES = 300


def kmeans_stage(settings: Settings) -> Stage:
    """k-means for a run of these settings, from AFK-MC² seeds."""
    isotropic = replace(settings, covariance_type="isotropic", noise="shared", learn_weights=False, n_factors=0)
    return Stage("k-means", replace(_one_component_per_row(isotropic), search="exhaustive"))


def _analyzers_stage(settings: Settings) -> Stage:
    """A factor analyzer per cluster: components of the run's own type, one for each row."""
    return Stage("fa", _one_component_per_row(settings))


def _one_component_per_row(settings: Settings) -> Settings:
    plain = replace(settings, search="guided", search_every=1, init_params="afkmc2", empty_components="drop")
    return replace(plain, truncation=1, neighborhood=1)


def start_from_clusters(executor: Executor, clusters: StageExecutor) -> None:
    """Train k-means from the seeds of its stage, then the factor analyzers, and write version 0 of the run."""
    groups, first = range(len(executor.plan.groups)), clusters.stage
    analyzers = StageExecutor(executor, _analyzers_stage(executor.settings))
    second = analyzers.stage
    version = _train(clusters)
    executor.results([executor.submit("fa-begin", 0, begin_analyzers, first, version, second)])
    executor.results([executor.submit("fa-rows", g, assign_rows, g, first, version, second) for g in groups])
    _discard(clusters, version)
    version = _train(analyzers)
    executor.results([executor.submit("seed-parameters", 0, take_parameters, second, version)])
    executor.results([executor.submit("seed-posteriors", g, take_posterior, g, second, version) for g in groups])
    _discard(analyzers, version)


def _train(executor: StageExecutor) -> int:
    """EM until the free energy has converged by the run's `tol`; returns the version of the parameters."""
    before = -np.inf
    for version in range(_MOST_PASSES):
        report = run_pass(executor, Step(version, version, 0, search=False, update=True))[0]
        executor.storage.discard(PARAMETERS, version)
        executor.storage.discard(POSTERIOR, version)
        free_energy = report.tally.free_energy / report.tally.n_rows
        logger.info("%s, pass %d: free energy %.4f per row", executor.stage.name, version, free_energy)
        if executor.settings.gain(free_energy, before, report.n_features) <= executor.settings.tol:
            return version + 1
        before = free_energy
    return _MOST_PASSES


def _discard(executor: StageExecutor, version: int) -> None:
    for kind, number in ((START, 0), (GRAPH, 0), (PARAMETERS, version), (POSTERIOR, version)):
        executor.storage.discard(kind, number)


def begin_analyzers(context: RunContext, clusters: Stage, version: int, analyzers: Stage) -> None:
    """Version 0 of the factor analyzers: means at the centres of the clusters, the rest as from seeds."""
    centers = context.stage(clusters).mixture(version).means
    known = context.stage(clusters).storage.read(START, 0, 0)
    begun = context.stage(analyzers)
    begun.storage.write(START, 0, 0, {name: np.array(array) for name, array in known.items()})
    write_start(begun, np.zeros(0, np.int64), centers.astype(np.float64), known["variances"])


def assign_rows(context: RunContext, group: int, clusters: Stage, version: int, analyzers: Stage) -> None:
    """Nearest centre of each row of a group (paper, eq. voronoi_cells): the component that it keeps from now on."""
    stage, (start, stop) = context.stage(clusters), context.plan.groups[group]
    nearest = np.empty((stop - start, 1), np.int32)
    with context.cores.exclusive():
        mixture, precision = stage.mixture(version), stage.precision(version)
        for first, block in read_ahead(context.rows, start, stop, context.plan.block_rows):
            rows = working_rows(block, mixture.offset, mixture.means.dtype.name)
            found = evaluate_exhaustively(rows, precision, stage, Stopwatch())
            nearest[first - start : first - start + len(block)] = found.components
    StageStorage(context.storage, analyzers).write(POSTERIOR, 0, group, {"components": nearest})


def take_parameters(context: RunContext, analyzers: Stage, version: int) -> None:
    """Version 0 of the run: the parameters of the factor analyzers, random neighbours.

    A cluster without rows counts as one row, so that what becomes of it is up to the run itself.
    """
    stage = context.stage(analyzers)
    mixture = stage.mixture(version)
    whole = mixture.with_every_component_alive(context.plan.n_rows)
    known = {**stage.storage.read(START, 0, 0), "offset": mixture.offset}
    write_given_start(context.storage, context.settings, context.plan, Start(whole), known)


def take_posterior(context: RunContext, group: int, analyzers: Stage, version: int) -> None:
    """K_n of the rows of a group: their cluster, the others uniform and distinct."""
    clusters = StageStorage(context.storage, analyzers).read(POSTERIOR, version, group)["components"]
    components = np.full((len(clusters), context.settings.truncation), -1, np.int32)
    components[:, :1] = clusters
    fill_components(context, group, components)
    context.storage.write(POSTERIOR, 0, group, {"components": components})
