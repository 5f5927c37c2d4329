"""One pass over the rows, spread over tasks: partial E-steps, merging in a fixed tree, updates per component block.

The tree has groups as leaves, and nodes of up to eight parts. Eight partial results are merged when they are there; the
results of merging are added to the sum of their node as they come, so that beside eight partial results one sum per
level waits, however many groups there are (`run.projection.projected_bytes`). Where groups touch few components, the
parts of the last node wait instead and the update adds them: together they are no larger than their sum, which would be
written anew for each of them. The bytes are the same.
"""

from __future__ import annotations

from typing import Any

from vmfa_dask import addresses
from vmfa_dask.run.executor import Executor
from vmfa_dask.run.handover import passes_through
from vmfa_dask.run.plan import FAN_IN, reorders_rows
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.run.tasks.m_step import BlockReport, split_components, update_block, update_noise
from vmfa_dask.run.tasks.merge import add_block, merge_block, pick_block

# Part of N by which Σ N_c may differ from it: responsibilities that are negligible are not counted.
_ROUNDING = 1e-6


def run_pass(executor: Executor, step: Step) -> list[BlockReport]:
    """Run one pass; afterwards its next versions are in the storage.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.
    step : Step
        The pass.

    Returns
    -------
    list of BlockReport
        One per component block, in their order.

    Raises
    ------
    RuntimeError
        If rows were lost or counted twice on the way through the tree.
    """
    plan = executor.plan
    n_blocks, n_groups = len(plan.component_blocks), len(plan.groups)
    sums = [_Tree(executor, block, n_groups) for block in range(n_blocks)]
    waiting: list[Any] = []
    stored = passes_through(executor.storage, plan, step)
    whole = stored or n_blocks == 1 or executor.shares_memory
    for group in range(n_groups):
        waiting.append(executor.submit("e-step", group, run_e_step, group, step))
        if len(waiting) == FAN_IN or group == n_groups - 1:
            merged = [
                sums[block].merged(waiting if whole else [_pick(executor, block, part) for part in waiting])
                for block in range(n_blocks)
            ]
            waiting = []  # nobody waits for these any more
            for block in range(n_blocks):
                sums[block].add(merged[block])
            del merged
    handles = []
    name = "m-step" if step.update else "neighbors"
    for block in range(n_blocks):
        # Taken out: where tasks run at once, the sums of a block end when it is updated, before the next one is.
        parts = sums[block].taken()
        handles.append(executor.submit(name, block, update_block, block, step, *parts))
        del parts
    shared = (
        [executor.submit("m-step-noise", 0, update_noise, step, *handles)]
        if _shares_noise(executor, step)
        else []
    )
    reports = executor.results([*handles, *shared])[:n_blocks]
    if stored:
        executor.storage.discard(addresses.MOMENTS, step.iteration)
    _check_counts(reports, executor.plan.n_rows)
    lost = [c for report in reports if report.update is not None for c in report.update.dropped]
    if lost and executor.settings.empty_components == "split":
        executor.results([executor.submit("m-step-split", 0, split_components, step, lost)])
    return reports


def _shares_noise(executor: Executor, step: Step) -> bool:
    return step.update and executor.settings.noise == "shared"


def _check_counts(reports: list[BlockReport], n_rows: int) -> None:
    """Every row once in every block, and Σ N_c = N: tasks that ran again after a worker was lost must not add up."""
    for block, report in enumerate(reports):
        if report.tally.n_rows != n_rows:
            raise RuntimeError(f"component block {block} sums {report.tally.n_rows} rows, expected {n_rows}")
    held = [report.update.n_rows for report in reports if report.update is not None]
    if held and abs(sum(held) - n_rows) > _ROUNDING * n_rows:
        raise RuntimeError(f"responsibilities sum to {sum(held):.6f} rows, expected {n_rows}")


def _pick(executor: Executor, block: int, part: Any) -> Any:
    """The block of a partial result, cut out where the result is, as it has to travel."""
    return executor.submit("reduce-pick", block, pick_block, block, part)


class _Tree:
    """The sum of one component block over all groups, on its way.

    Parameters
    ----------
    executor : who runs the tasks
    block : number of the component block
    n_groups : leaves
    """

    def __init__(self, executor: Executor, block: int, n_groups: int) -> None:
        self._executor, self._block = executor, block
        # Results that each level gets, from that of the groups up to one with no more than a task takes.
        self._expected = [n_groups]
        while self._expected[-1] > FAN_IN:
            self._expected.append(-(-self._expected[-1] // FAN_IN))
        self._taken = [0] * len(self._expected)
        self._sums: list[Any] = [None] * len(self._expected)
        self._parts: list[Any] = []
        self._adds_last = not reorders_rows(executor.settings)

    def taken(self) -> list[Any]:
        """What is left to sum when all groups were added; handed over."""
        parts, self._parts = self._parts, []
        return parts

    def merged(self, parts: list[Any]) -> list[Any]:
        """The results of the next groups, as many as one task sums, as `add` takes them."""
        if len(self._expected) == 1:
            return parts
        return [self._executor.submit("reduce", self._block, merge_block, self._block, *parts)]

    def add(self, parts: list[Any]) -> None:
        """Take what was merged, in the order of the groups."""
        if len(self._expected) == 1:
            self._parts = parts
        else:
            self._take(1, *parts)

    def _take(self, level: int, part: Any) -> None:
        """Add a result of the level below to the sum of its node; what is complete goes up."""
        n, top = self._taken[level], level == len(self._expected) - 1
        self._taken[level] += 1
        if top and not self._adds_last:
            self._parts.append(part)
            return
        last = self._taken[level] == self._expected[level]
        ends = not top and (n % FAN_IN == FAN_IN - 1 or last)
        if n % FAN_IN:
            add = (add_block, self._block, ends, self._sums[level], part)
            part = self._executor.submit("reduce-add", self._block, *add)
        self._sums[level] = None if ends else part
        if ends:
            self._take(level + 1, part)
        elif top and last:
            self._parts = [part]
