"""The initialisation of a run, spread over tasks: passes over the rows, then version 0 of parameters and graph."""

from __future__ import annotations

from collections.abc import Callable

from vmfa_dask.em import kmeans_fa, kmeans_plus_plus, seeding, tasks
from vmfa_dask.em.executor import Executor, StageExecutor
from vmfa_dask.em.start import Start, write_given_start


def initialize(executor: Executor, start: Start | None = None) -> int:
    """Write version 0 of a run; returns the number of distinct seeds (C where a start is given)."""
    if start is not None:
        write_given_start(executor.storage, executor.settings, executor.plan, start)
        return executor.settings.n_components
    if executor.settings.init_params == "k-means+fa":
        return _from_clusters(executor)
    surveys = [executor.submit("seed-survey", g, seeding.survey_group, g) for g in _groups(executor)]
    executor.results([executor.submit("seed-begin", 0, tasks.begin_run, *surveys)])
    return _METHODS[executor.settings.init_params](executor)


def _groups(executor: Executor) -> range:
    return range(len(executor.plan.groups))


def _afkmc2(executor: Executor) -> int:
    masses = executor.results(
        [executor.submit("seed-distances", g, seeding.distance_mass, g) for g in _groups(executor)]
    )
    parts = [executor.submit("seed-candidates", g, seeding.gather_candidates, g, masses) for g in _groups(executor)]
    return int(executor.results([executor.submit("seed-chains", 0, tasks.initialize_chains, masses, *parts)])[0])


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
    "afkmc2": _afkmc2,
    "uniform": _uniform,
    "noise": _noise,
    "k-means++": _kmeans_plus_plus,
}
