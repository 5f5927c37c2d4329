"""One pass over the rows, spread over tasks: partial E-steps, merging in a fixed tree, updates per component block."""

from __future__ import annotations

from typing import Any

from vmfa_dask.em import tasks
from vmfa_dask.em.context import Step
from vmfa_dask.em.executor import Executor
from vmfa_dask.em.handover import passes_through
from vmfa_dask.em.storage import MOMENTS

# Partial results that one task sums. Eight statistics of the same block fit beside each other where one does.
_FAN_IN = 8
# Part of N by which Σ N_c may differ from it: responsibilities that are negligible are not counted.
_ROUNDING = 1e-6


def run_pass(executor: Executor, step: Step) -> list[tasks.BlockReport]:
    """Run one step; afterwards its next versions are in the storage. Reports come in the order of the blocks.

    Raises
    ------
    RuntimeError
        When rows were lost or counted twice on the way through the tree.
    """
    n_blocks = len(executor.plan.component_blocks)
    levels: list[list[Any]] = [[] for _ in range(n_blocks)]
    waiting: list[Any] = []
    n_groups = len(executor.plan.groups)
    stored = passes_through(executor.storage, executor.plan, step)
    whole = stored or n_blocks == 1 or executor.shares_memory
    for group in range(n_groups):
        waiting.append(executor.submit("e-step", group, tasks.run_e_step, group, step))
        if len(waiting) == _FAN_IN or group == n_groups - 1:
            for block in range(n_blocks):
                own = waiting if whole else [_pick(executor, block, part) for part in waiting]
                levels[block].extend(own if n_groups <= _FAN_IN else [_merge(executor, block, own)])
            waiting = []
    handles = []
    for block, parts in enumerate(levels):
        while len(parts) > _FAN_IN:
            parts = [_merge(executor, block, parts[k : k + _FAN_IN]) for k in range(0, len(parts), _FAN_IN)]
        name = "m-step" if step.update else "neighbors"
        handles.append(executor.submit(name, block, tasks.update_block, block, step, *parts))
    del levels, parts
    shared = (
        [executor.submit("m-step-noise", 0, tasks.update_noise, step, *handles)]
        if _shares_noise(executor, step)
        else []
    )
    reports = executor.results([*handles, *shared])[:n_blocks]
    if stored:
        executor.storage.discard(MOMENTS, step.iteration)
    _check_counts(reports, executor.plan.n_rows)
    lost = [c for report in reports if report.update is not None for c in report.update.dropped]
    if lost and executor.settings.empty_components == "split":
        executor.results([executor.submit("m-step-split", 0, tasks.split_components, step, lost)])
    return reports


def _shares_noise(executor: Executor, step: Step) -> bool:
    return step.update and executor.settings.noise == "shared"


def _check_counts(reports: list[tasks.BlockReport], n_rows: int) -> None:
    """Every row once in every block, and Σ N_c = N: tasks that ran again after a worker was lost must not add up."""
    for block, report in enumerate(reports):
        if report.tally.n_rows != n_rows:
            raise RuntimeError(f"component block {block} sums {report.tally.n_rows} rows, expected {n_rows}")
    held = [report.update.n_rows for report in reports if report.update is not None]
    if held and abs(sum(held) - n_rows) > _ROUNDING * n_rows:
        raise RuntimeError(f"responsibilities sum to {sum(held):.6f} rows, expected {n_rows}")


def _pick(executor: Executor, block: int, part: Any) -> Any:
    """The block of a partial result, cut out where the result is, as it has to travel."""
    return executor.submit("reduce-pick", block, tasks.pick_block, block, part)


def _merge(executor: Executor, block: int, parts: list[Any]) -> Any:
    return executor.submit("reduce", block, tasks.merge_block, block, *parts)
