"""What a run takes on given machines: seconds of a pass by phase, and bytes that move.

A phase takes seconds per unit of its work: some on one thread, the rest shared by the threads of a process. The units
follow from the sizes of the run alone; the seconds per unit are measured elsewhere (`service.rates`). May import: em.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vmfa_dask.em.packed import packed_bytes
from vmfa_dask.run.plan import FAN_IN, Plan, reorders_rows, statistics_bytes
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.run.settings import Settings


@dataclass(frozen=True)
class Rate:
    """Seconds per unit of work.

    Parameters
    ----------
    alone : float
        Of one thread, while the others of its process wait.
    shared : float
        Of one core, divided by the threads of a process.
    """

    alone: float
    shared: float

    def seconds(self, n_threads: int) -> float:
        """Wall-clock time of a unit.

        Parameters
        ----------
        n_threads : int
            Threads of the process.

        Returns
        -------
        float
        """
        return self.alone + self.shared / n_threads

    @property
    def share_alone(self) -> float:
        """Part of the time of one thread that no other thread can take over."""
        total = self.alone + self.shared
        return self.alone / total if total else 0.0


@dataclass(frozen=True)
class Rates:
    """What was measured on a machine, for rows of one width and dtype and one number of factors.

    Parameters
    ----------
    phases : mapping of str to Rate
        Per unit of `units_of_pass`.
    joints_per_row : float
        Log-joints of a settled pass of guided search.
    memory_bandwidth : float
        Bytes per second that all cores together copy.
    scratch_bandwidth : float
        Bytes per second that are written to scratch and read again.
    task_seconds : float
        Of the scheduler, for a task.
    """

    phases: Mapping[str, Rate]
    joints_per_row: float
    memory_bandwidth: float
    scratch_bandwidth: float
    task_seconds: float


@dataclass(frozen=True)
class Layout:
    """Machines, and how their cores are used.

    Parameters
    ----------
    machines : int
        Number of equal machines.
    processes : int
        Worker processes of a machine.
    threads : int
        Threads of a process.
    """

    machines: int
    processes: int
    threads: int

    @property
    def n_processes(self) -> int:
        """Of all machines."""
        return self.machines * self.processes


def units_of_pass(
    n_rows: int, joints_per_row: float, n_components: int, n_groups: int
) -> dict[str, float]:
    """Work of a training pass by phase.

    Parameters
    ----------
    n_rows : int
        N.
    joints_per_row : float
        Log-joints evaluated per row.
    n_components : int
        C.
    n_groups : int
        Partial E-steps.

    Returns
    -------
    dict of str to float
        Rows, log-joints, components or tasks.
    """
    joints = n_rows * joints_per_row
    return {
        "read": n_rows,
        "search": joints,
        "log_joints": joints,
        "truncation": joints,
        "moments": n_rows,
        "tallies": joints,
        "update": n_components,
        "rest": n_groups,
    }


def expected_joints(settings: Settings, rates: Rates) -> float:
    """Log-joints per row of a settled pass.

    Parameters
    ----------
    settings : Settings
        The run.
    rates : Rates
        As measured with few components; the number hardly depends on C.

    Returns
    -------
    float
    """
    if settings.search == "exhaustive":
        return float(settings.n_components)
    return min(rates.joints_per_row, float(settings.most_candidates), float(settings.n_components))


def seconds_of_pass(
    rows: RowSource, settings: Settings, plan: Plan, layout: Layout, rates: Rates
) -> dict[str, float]:
    """Wall-clock time of a settled training pass by phase.

    Parameters
    ----------
    rows, settings, plan : RowSource, Settings, Plan
        The run.
    layout : Layout
        The machines.
    rates : Rates
        Measured on such a machine.

    Returns
    -------
    dict of str to float
        The phases of a record; "parameters" for parameters that come from memory instead of caches, "rest" for what
        else a task takes, "scheduling" for the scheduler.
    """
    units = units_of_pass(rows.n_rows, expected_joints(settings, rates), settings.n_components, len(plan.groups))
    workers = {name: min(layout.n_processes, len(plan.groups)) for name in units}
    workers["update"] = min(layout.n_processes, len(plan.component_blocks))
    seconds = {
        name: units[name] * rates.phases[name].seconds(layout.threads) / workers[name]
        for name in units
        if name in rates.phases
    }
    machines = min(layout.machines, len(plan.groups))
    seconds["parameters"] = _parameter_bytes(rows, settings, plan, units["log_joints"]) / (
        rates.memory_bandwidth * machines
    )
    if layout.n_processes > 1:
        seconds["scheduling"] = n_tasks(settings, plan) * rates.task_seconds
    return seconds


def _parameter_bytes(rows: RowSource, settings: Settings, plan: Plan, joints: float) -> float:
    """Bytes of packed parameters that pass through the caches: those of a component once for each tile that asks."""
    c, d, item = settings.n_components, n_features_of(rows), 4 if settings.precision == "float32" else 8
    n_tiles = max(1.0, rows.n_rows / plan.tile_rows)
    asked = c * -math.expm1(-joints / n_tiles / c)  # of C, if they were drawn at random
    return n_tiles * asked * packed_bytes(1, settings.n_factors, d, item)


def n_tasks(settings: Settings, plan: Plan) -> int:
    """Tasks of a training pass.

    Parameters
    ----------
    settings, plan : Settings, Plan
        The run.

    Returns
    -------
    int
    """
    groups, blocks = len(plan.groups), len(plan.component_blocks)
    if groups <= FAN_IN:
        return groups + blocks
    merges = -(-groups // FAN_IN)
    # What is merged is added up to one sum, one task less than there are of them; then the update. Where the update
    # adds up to eight of them, their own sums are not made.
    left = merges
    while left > FAN_IN:
        left = -(-left // FAN_IN)
    return groups + blocks * (2 * merges - (left - 1 if reorders_rows(settings) else 0))


def bytes_of_pass(rows: RowSource, settings: Settings, plan: Plan, layout: Layout) -> dict[str, int]:
    """Bytes that a training pass moves between storage, processes and machines.

    Parameters
    ----------
    rows, settings, plan : RowSource, Settings, Plan
        The run.
    layout : Layout
        The machines.

    Returns
    -------
    dict of str to int
        "rows" that are read; "parameters" that are written, and read by each machine; "statistics" of all groups.
    """
    c, d, item = settings.n_components, n_features_of(rows), 4 if settings.precision == "float32" else 8
    one = packed_bytes(1, settings.n_factors, d, item)
    return {
        "rows": rows.n_rows * d * rows.dtype.itemsize,
        "parameters": c * one * (1 + layout.machines),
        "statistics": len(plan.groups) * c * statistics_bytes(settings, d) * item // 8,
    }
