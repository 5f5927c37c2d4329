"""The initialisation of a run, spread over tasks: passes over the rows, then version 0 of parameters and graph."""

from __future__ import annotations

from vmfa_dask.em import seeding, tasks
from vmfa_dask.em.executor import Executor


def initialize(executor: Executor, start: seeding.Start | None = None) -> int:
    """Write version 0 of a run; returns the number of distinct seeds (C where a start is given)."""
    if start is not None:
        seeding.write_given_start(executor.storage, executor.settings, executor.plan, start)
        return executor.settings.n_components
    groups = range(len(executor.plan.groups))
    surveys = [executor.submit("seed-survey", g, seeding.survey_group, g) for g in groups]
    executor.results([executor.submit("seed-begin", 0, tasks.begin_run, *surveys)])
    if executor.settings.init_params == "uniform":
        return int(executor.results([executor.submit("seed-uniform", 0, tasks.initialize_uniform)])[0])
    masses = executor.results([executor.submit("seed-distances", g, seeding.distance_mass, g) for g in groups])
    parts = [executor.submit("seed-candidates", g, seeding.gather_candidates, g, masses) for g in groups]
    return int(executor.results([executor.submit("seed-chains", 0, tasks.initialize_chains, masses, *parts)])[0])
