"""One pass over the rows, spread over tasks: partial E-steps, merging in a fixed tree, updates per component block."""

from __future__ import annotations

from typing import Any

from vmfa_dask.em import tasks
from vmfa_dask.em.context import Step
from vmfa_dask.em.executor import Executor

# Partial results that one task sums. Eight statistics of the same block fit beside each other where one does.
_FAN_IN = 8


def run_pass(executor: Executor, step: Step) -> list[tasks.BlockReport]:
    """Run one step; afterwards its next versions are in the storage. Reports come in the order of the blocks."""
    n_blocks = len(executor.plan.component_blocks)
    levels: list[list[Any]] = [[] for _ in range(n_blocks)]
    waiting: list[Any] = []
    n_groups = len(executor.plan.groups)
    for group in range(n_groups):
        waiting.append(executor.submit("e-step", group, tasks.run_e_step, group, step))
        if len(waiting) == _FAN_IN or group == n_groups - 1:
            for block in range(n_blocks):
                own = [_own_part(executor, block, part, n_blocks) for part in waiting]
                levels[block].extend(own if n_groups <= _FAN_IN else [_merge(executor, block, own)])
            waiting = []
    handles = []
    for block, parts in enumerate(levels):
        while len(parts) > _FAN_IN:
            parts = [_merge(executor, block, parts[k : k + _FAN_IN]) for k in range(0, len(parts), _FAN_IN)]
        name = "m-step" if step.update else "neighbors"
        handles.append(executor.submit(name, block, tasks.update_block, block, step, *parts))
    del levels, parts
    return executor.results(handles)


def _own_part(executor: Executor, block: int, part: Any, n_blocks: int) -> Any:
    """The block of a partial result; cut out where the result is when it has to travel."""
    if n_blocks == 1 or executor.shares_memory:
        return part
    return executor.submit("reduce-pick", block, tasks.pick_block, block, part)


def _merge(executor: Executor, block: int, parts: list[Any]) -> Any:
    return executor.submit("reduce", block, tasks.merge_block, block, *parts)
