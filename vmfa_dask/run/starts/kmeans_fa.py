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

from vmfa_dask import addresses
from vmfa_dask.run.executor import Executor, StageExecutor
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.stages import Stage
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.clusters import assign_rows, begin_analyzers, take_parameters, take_posterior

logger = logging.getLogger(__name__)

# scikit-learn's limit for k-means; a factor analyzer needs fewer passes.
_MOST_PASSES = 300


def kmeans_stage(settings: Settings) -> Stage:
    """The stage that is k-means from AFK-MC² seeds.

    Parameters
    ----------
    settings : Settings
        The run.

    Returns
    -------
    Stage
    """
    isotropic = replace(settings, covariance_type="isotropic", noise="shared", learn_weights=False, n_factors=0)
    return Stage("k-means", replace(_one_component_per_row(isotropic), search="exhaustive"))


def _analyzers_stage(settings: Settings) -> Stage:
    """A factor analyzer per cluster: components of the run's own type, one for each row."""
    return Stage("fa", _one_component_per_row(settings))


def _one_component_per_row(settings: Settings) -> Settings:
    plain = replace(settings, search="guided", search_every=1, init_params="afkmc2", empty_components="drop")
    plain = replace(plain, locality=False, screening=False)  # rows begin with their clusters
    return replace(plain, truncation=1, neighborhood=1)


def start_from_clusters(executor: Executor, clusters: StageExecutor) -> None:
    """Train k-means from the seeds of its stage, then the factor analyzers, and write version 0 of the run.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.
    clusters : StageExecutor
        Runs those of k-means, whose seeds are written.
    """
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
        executor.storage.discard(addresses.PARAMETERS, version)
        executor.storage.discard(addresses.POSTERIOR, version)
        free_energy = report.tally.free_energy / report.tally.n_rows
        logger.info("%s, pass %d: free energy %.4f per row", executor.stage.name, version, free_energy)
        if executor.settings.gain(free_energy, before, report.n_features) <= executor.settings.tol:
            return version + 1
        before = free_energy
    return _MOST_PASSES


def _discard(executor: StageExecutor, version: int) -> None:
    for kind in (addresses.START, addresses.GRAPH):
        executor.storage.discard(kind, 0)
    for kind in (addresses.PARAMETERS, addresses.POSTERIOR):
        executor.storage.discard(kind, version)
