"""What a run would take: memory, scratch, bytes and seconds, and what limits it. May import: run, cluster, service."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from vmfa_dask.run.costs import Layout, Rates, bytes_of_pass, seconds_of_pass
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.projection import kept_bytes, projected_bytes
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import available_cores
from vmfa_dask.service.inputs import asked_settings, settings_of_fit
from vmfa_dask.service.keywords import SettingsKeywords
from vmfa_dask.service.planned_rows import as_many, check_counts, rows_of_size, sample_of
from vmfa_dask.service.rates import measure_rates
from vmfa_dask.service.sources import opened_rows

PASSES = 20
"""Passes that a plan assumes: how many a run needs depends on the data."""
_GIB = 2**30


@dataclass(frozen=True)
class RunPlan:
    """What a run takes, as far as it can be told before.

    Parameters
    ----------
    settings : Settings
        Of the run.
    n_rows, n_features, n_groups : int
        N, D, and the partial E-steps of a pass.
    layout : Layout
        Machines, processes and threads.
    memory : dict of str to int
        Peak bytes of a process, by what they hold.
    kept : int
        Bytes of the folder of a run that is kept.
    moved : dict of str to int
        Bytes that a training pass moves.
    seconds : dict of str to float
        Wall-clock time of a settled training pass, by phase.
    passes : int
        Passes that were assumed; how many a run needs depends on the data.
    rates : Rates
        What the times follow from.
    """

    settings: Settings
    n_rows: int
    n_features: int
    n_groups: int
    layout: Layout
    memory: dict[str, int]
    kept: int
    moved: dict[str, int]
    seconds: dict[str, float]
    passes: int
    rates: Rates

    @property
    def machine_bytes(self) -> int:
        """Peak memory of all processes of a machine."""
        return self.layout.processes * sum(self.memory.values())

    @property
    def seconds_per_pass(self) -> float:
        """Wall-clock time of a settled training pass."""
        return sum(self.seconds.values())

    @property
    def total_seconds(self) -> float:
        """Wall-clock time of all passes; seeding takes about one pass more."""
        return self.passes * self.seconds_per_pass

    @property
    def limited_by(self) -> str:
        """The phase that takes most of a pass."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    def __str__(self) -> str:
        layout, settings = self.layout, self.settings
        memory = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in self.memory.items())
        moved = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in self.moved.items())
        by_phase = sorted(self.seconds.items(), key=lambda item: -item[1])
        phases = ", ".join(f"{name} {seconds:.3g}" for name, seconds in by_phase)
        return "\n".join(
            [
                f"{self.n_rows:,} rows of {self.n_features:,} features, C = {settings.n_components:,}, "
                f"H = {settings.n_factors}, in {self.n_groups} groups",
                f"{layout.machines} machine(s) with {layout.processes} process(es) of {layout.threads} thread(s)",
                f"memory of a machine: {self.machine_bytes / _GIB:.2f} GiB; of a process, in GiB: {memory}",
                f"disk of a run that is kept: up to {self.kept / _GIB:.2f} GiB",
                f"moved in a pass, in GiB: {moved}",
                f"a pass: {self.seconds_per_pass:.3g} s ({phases}); most of it is {self.limited_by}",
                f"{self.passes} passes: {self.total_seconds:.3g} s = {self.total_seconds / 3600:.2g} h",
            ]
        )


def plan_run(
    data: Any = None,
    *,
    n_components: int,
    n_rows: int | None = None,
    n_features: int | None = None,
    dtype: Any = "float32",
    machines: int = 1,
    processes: int = 1,
    threads: int | None = None,
    passes: int = PASSES,
    n_groups: int | None = None,
    rates: Rates | None = None,
    preset: str = "default",
    **settings: Unpack[SettingsKeywords],
) -> RunPlan:
    """Estimate what a fit would take on some machines, from rates that are measured on this one.

    The rates come from short fits with the same width, dtype and settings, which take some ten seconds. With `data`
    they are fits of its rows, which is closer to the truth: how many log-joints a row needs depends on the data.

    Parameters
    ----------
    data : array_like or path, optional
        The rows, in any form that `fit_distributed` takes.
    n_components : int
        C.
    n_rows, n_features : int, optional
        N and D of rows that do not exist yet; with `data`, another number of rows like these.
    dtype : dtype
        Of rows that do not exist yet.
    machines, processes : int
        Number of machines, and of worker processes on each.
    threads : int, optional
        Threads of a process; by default its share of the cores of this machine.
    passes : int
        Passes to assume.
    n_groups : int, optional
        As in `fit_distributed`.
    rates : Rates, optional
        From an earlier plan of the same width, dtype and factors; nothing is measured then.
    preset : {"default", "paper"}
        As in `fit_distributed`.
    **settings
        Further settings of the fit.

    Returns
    -------
    RunPlan
        Print it for a summary.

    Raises
    ------
    TypeError, ValueError
        Naming the argument that is missing or does not fit.

    Examples
    --------
    >>> from vmfa_dask import plan_run
    >>> plan = plan_run(n_rows=10_000, n_features=8, n_components=20, n_factors=2)
    >>> plan.seconds_per_pass > 0
    True
    """
    check_counts(machines=machines, processes=processes, passes=passes, threads=threads)
    if data is None and (n_rows is None or n_features is None):
        raise ValueError("plan_run: expected data, or n_rows and n_features")
    asked = asked_settings(preset, {"n_components": n_components, **settings})
    with ExitStack() as stack:
        if data is None:
            assert n_rows is not None
            assert n_features is not None
            rows, sample = rows_of_size(n_rows, n_features, np.dtype(dtype)), None
        else:
            source = stack.enter_context(opened_rows(data))
            rows, sample = as_many(source, n_rows), sample_of(source)
        chosen = settings_of_fit(asked, None, rows)
        measured = rates if rates is not None else measure_rates(rows, chosen, sample)
    return planned(rows, chosen, layout_of(machines, processes, threads), measured, passes, n_groups)


def layout_of(machines: int, processes: int, threads: int | None) -> Layout:
    """Machines and how their cores are used.

    Parameters
    ----------
    machines, processes : int
        Number of machines, and of worker processes on each.
    threads : int or None
        Threads of a process; None for its share of the cores of this machine.

    Returns
    -------
    Layout
    """
    return Layout(machines, processes, threads or max(1, available_cores() // processes))


def planned(
    rows: RowSource, settings: Settings, layout: Layout, rates: Rates, passes: int, n_groups: int | None
) -> RunPlan:
    """Put together what a run takes.

    Parameters
    ----------
    rows, settings : RowSource, Settings
        The run.
    layout : Layout
        The machines.
    rates : Rates
        From `measure_rates`.
    passes : int
        Passes to assume.
    n_groups : int or None
        As in `fit_distributed`.

    Returns
    -------
    RunPlan
    """
    plan = make_plan(rows, settings, n_groups)
    return RunPlan(
        settings=settings,
        n_rows=rows.n_rows,
        n_features=n_features_of(rows),
        n_groups=len(plan.groups),
        layout=layout,
        memory=projected_bytes(rows, settings, plan),
        kept=kept_bytes(rows, settings),
        moved=bytes_of_pass(rows, settings, plan, layout),
        seconds=seconds_of_pass(rows, settings, plan, layout, rates),
        passes=passes,
        rates=rates,
    )
