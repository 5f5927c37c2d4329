"""The memory of a fit, in words. May import: command, run, cluster."""

from __future__ import annotations

from vmfa_dask.cluster.memory_check import check_memory
from vmfa_dask.run.advice import Advice
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.projection import kept_bytes, projected_bytes, stored_bytes
from vmfa_dask.run.row_order import scratch_bytes
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.service.run_plan import RunPlan

_HELD = {
    "rows": "row blocks",
    "candidates": "candidates of a row block",
    "model": "packed parameters and means",
    "statistics": "sums of partial E-steps",
    "search": "neighbours and divergences",
    "seeding": "seeding, beyond that",
    "process": "the process itself",
}


def projection_lines(rows: RowSource, settings: Settings, n_groups: int | None, limit: int | None) -> list[str]:
    """Say what a worker needs, and whether it has that.

    Parameters
    ----------
    rows : RowSource
        The training rows.
    settings : Settings
        Of the run.
    n_groups : int or None
        As the call has given it.
    limit : int or None
        Memory of a worker in bytes; None where it is not known, or has no limit.

    Returns
    -------
    list of str
        One line for each part, and for the sum; then one that says whether it fits.
    """
    plan = make_plan(rows, settings, n_groups)
    parts = projected_bytes(rows, settings, plan)
    lines = [
        f"{rows.n_rows:,} rows of {n_features_of(rows):,} features ({rows.dtype.name}) in {len(plan.groups)} groups; "
        f"C = {settings.n_components}, H = {settings.n_factors}, {settings.precision}",
        "peak memory of a worker:",
        *(f"  {_HELD[name]:28s} {size / 2**20:10,.1f} MiB" for name, size in parts.items()),
        f"  {'together':28s} {sum(parts.values()) / 2**20:10,.1f} MiB",
        f"processes exchange up to {stored_bytes(rows, settings, shared=True) / 2**20:,.1f} MiB through scratch",
        f"a run that is kept takes up to {kept_bytes(rows, settings) / 2**20:,.1f} MiB of disk",
    ]
    scratch = scratch_bytes(rows, settings)
    if scratch:
        lines.append(f"rows in the order of their cells take up to {scratch / 2**20:,.1f} MiB of scratch")
    if limit is None:
        return lines
    try:
        room = check_memory(parts, limit, Advice(rows, settings, plan, n_groups))
    except MemoryError as error:
        return [*lines, f"it does not fit: {error}"]
    return [
        *lines,
        f"it fits a worker of {limit / 2**20:,.0f} MiB, which has {room / 2**20:,.0f} MiB left for a cache of rows",
    ]


def duration_lines(plan: RunPlan) -> list[str]:
    """Say how long a pass takes.

    Parameters
    ----------
    plan : RunPlan
        With measured rates.

    Returns
    -------
    list of str
        Seconds of a pass and of its phases, and of all passes that were assumed.
    """
    layout = plan.layout
    phases = sorted(plan.seconds.items(), key=lambda item: -item[1])
    return [
        f"on {layout.machines} machine(s) with {layout.processes} process(es) of {layout.threads} thread(s), in "
        f"{plan.n_groups} groups, a pass takes about {plan.seconds_per_pass:.3g} s, most of it for {plan.limited_by}:",
        *(f"  {name:28s} {seconds:10.3f} s" for name, seconds in phases),
        f"{plan.passes} passes take about {plan.total_seconds:.3g} s",
    ]
