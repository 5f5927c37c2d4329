"""The initialisation of a run, spread over tasks: passes over the rows, then version 0 of parameters and graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vmfa_dask.em import kmeans_fa, kmeans_plus_plus, pilot, restarts, sample, seeding, tasks
from vmfa_dask.em.executor import Executor, StageExecutor
from vmfa_dask.em.start import Start, check_start, write_given_start
from vmfa_dask.em.storage import START
from vmfa_dask.values import Float64


def initialize(executor: Executor, start: Start | None = None) -> int:
    """Write version 0 of a run; returns the number of distinct seeds (C where a start is given)."""
    settings = executor.settings
    if start is not None:
        check_start(settings, executor.plan, start)
        known = None
        if settings.standardize:
            _survey(executor, np.array(start.mixture.offset))
            known = executor.storage.read(START, 0, 0)
        write_given_start(executor.storage, settings, executor.plan, start, known)
        return settings.n_components
    if settings.n_init > 1 and settings.init_params != "pilot":  # a pilot makes its attempts itself, on its sample
        return restarts.start_from_best(executor, initialize)
    if settings.init_params == "k-means+fa":
        return _from_clusters(executor)
    _survey(executor)
    return _METHODS[settings.init_params](executor)


def complete_start(executor: Executor) -> None:
    """Survey the rows of a run that was begun with a given start elsewhere, where nobody reads the rows."""
    if not executor.settings.standardize:
        return
    try:
        executor.storage.read(START, 0, 0)
    except KeyError:
        _survey(executor, executor.storage.read(START, 0, 1)["offset"])


def _survey(executor: Executor, offset: Float64 | None = None) -> None:
    """One pass over the rows that finds their units, and refuses what is not finite."""
    surveys = [executor.submit("seed-survey", g, seeding.survey_group, g) for g in _groups(executor)]
    executor.results([executor.submit("seed-begin", 0, tasks.begin_run, offset, *surveys)])


def _groups(executor: Executor) -> range:
    return range(len(executor.plan.groups))


def _afkmc2(executor: Executor) -> int:
    masses = executor.results(
        [executor.submit("seed-distances", g, seeding.distance_mass, g) for g in _groups(executor)]
    )
    parts = [executor.submit("seed-candidates", g, seeding.gather_candidates, g, masses) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-chains", 0, tasks.initialize_chains, masses, *parts)])[0])


def _pilot(executor: Executor) -> int:
    n_sampled = pilot.sample_size(executor.settings, executor.plan.n_rows)
    parts = [executor.submit("seed-sample", g, sample.sample_group, g, n_sampled) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-pilot", 0, pilot.run_pilot, *parts)])[0])


def _uniform(executor: Executor) -> int:
    return int(executor.results([executor.submit("seed-uniform", 0, tasks.initialize_uniform)])[0])


def _noise(executor: Executor) -> int:
    return int(executor.results([executor.submit("seed-noise", 0, tasks.initialize_noise)])[0])


def _kmeans_plus_plus(executor: Executor) -> int:
    rows = kmeans_plus_plus.draw_seeds(executor)
    return int(executor.results([executor.submit("seed-rows", 0, tasks.initialize_from_rows, rows)])[0])


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
