"""The initialisation of a run, spread over tasks: passes over the rows, then version 0 of parameters and graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.run.defaults import sample_size
from vmfa_dask.run.executor import Executor, StageExecutor
from vmfa_dask.run.start import Start, check_start, write_given_start
from vmfa_dask.run.starts import kmeans_fa, kmeans_plus_plus, pilot, restarts
from vmfa_dask.run.starts.cells import start_in_cells
from vmfa_dask.run.tasks import seeds
from vmfa_dask.run.tasks.survey import begin_run, survey_group
from vmfa_dask.run.tasks.uniform import gather_uniform, initialize_distinct, initialize_uniform
from vmfa_dask.values import Float64


def initialize(executor: Executor, start: Start | None = None) -> int:
    """Write version 0 of a run.

    Parameters
    ----------
    executor : Executor
        Who runs the tasks.
    start : Start, optional
        A start in place of seeds.

    Returns
    -------
    int
        The number of distinct seeds; C where a start is given.

    Raises
    ------
    ValueError
        If rows are not finite or beyond the precision of the run, or the start does not fit the run.
    """
    settings = executor.settings
    if start is not None:
        check_start(settings, executor.plan, start)
        surveyed = None
        if settings.standardize:
            _survey(executor, np.array(start.mixture.offset))
            surveyed = executor.storage.read(addresses.RowSurvey())
        write_given_start(executor.storage, settings, executor.plan, start, surveyed)
        return settings.n_components
    if settings.n_init > 1 and settings.init_params != "pilot":  # a pilot makes its attempts itself, on its sample
        return restarts.start_from_best(executor, initialize)
    if settings.init_params == "k-means+fa":
        return _from_clusters(executor)
    _survey(executor)
    n_distinct = _METHODS[settings.init_params](executor)
    if settings.starts_from_cells:
        start_in_cells(executor)
    return n_distinct


def complete_start(executor: Executor) -> None:
    """Survey the rows of a run whose given start was written by a client that does not read the rows.

    Parameters
    ----------
    executor : Executor
        Who runs the tasks.
    """
    if not executor.settings.standardize:
        return
    try:
        executor.storage.read(addresses.RowSurvey())
    except KeyError:
        _survey(executor, executor.storage.read(addresses.SeedRows())["offset"])


def _survey(executor: Executor, offset: Float64 | None = None) -> None:
    """One pass over the rows that finds their units, and refuses what is not finite."""
    surveys = [executor.submit("seed-survey", g, survey_group, g) for g in _groups(executor)]
    executor.results([executor.submit("seed-begin", 0, begin_run, offset, *surveys)])


def _groups(executor: Executor) -> range:
    return range(len(executor.plan.groups))


def _afkmc2(executor: Executor) -> int:
    masses = executor.results(
        [executor.submit("seed-distances", g, seeds.distance_mass, g) for g in _groups(executor)]
    )
    parts = [executor.submit("seed-candidates", g, seeds.gather_candidates, g, masses) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-chains", 0, seeds.initialize_chains, masses, *parts)])[0])


def _pilot(executor: Executor) -> int:
    n_sampled = sample_size(executor.settings, executor.plan.n_rows)
    parts = [executor.submit("seed-sample", g, seeds.sample_group, g, n_sampled) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-pilot", 0, pilot.run_pilot, *parts)])[0])


def _uniform(executor: Executor) -> int:
    if not executor.settings.starts_from_cells:
        return int(executor.results([executor.submit("seed-uniform", 0, initialize_uniform)])[0])
    parts = [executor.submit("seed-candidates", g, gather_uniform, g) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-uniform", 0, initialize_distinct, *parts)])[0])


def _noise(executor: Executor) -> int:
    return int(executor.results([executor.submit("seed-noise", 0, seeds.initialize_noise)])[0])


def _kmeans_plus_plus(executor: Executor) -> int:
    rows = kmeans_plus_plus.draw_seeds(executor)
    return int(executor.results([executor.submit("seed-rows", 0, seeds.initialize_from_rows, rows)])[0])


def _from_clusters(executor: Executor) -> int:
    clusters = StageExecutor(executor, kmeans_fa.kmeans_stage(executor.settings))
    n_distinct = initialize(clusters)
    kmeans_fa.start_from_clusters(executor, clusters)
    return n_distinct


# Ways from the survey of the rows to seeds.
_METHODS: dict[str, Callable[[Executor], int]] = {
    "pilot": _pilot,
    "afkmc2": _afkmc2,
    "uniform": _uniform,
    "noise": _noise,
    "k-means++": _kmeans_plus_plus,
}
