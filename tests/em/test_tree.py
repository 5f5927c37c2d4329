"""Sums over groups: as in one tree of tasks that take eight parts, with few results that wait."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.em.runs import make_context
from tests.samples import draw, fixed_passes, make_mixture, make_start, parameters
from vmfa_dask import fit_local
from vmfa_dask.run import passes
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.handover import PartialResult
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.plan import FAN_IN
from vmfa_dask.run.projection import levels_above_merging
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.starts.initialization import initialize
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.run.tasks.m_step import BlockReport

ROWS = draw(make_mixture(5, 8, 3), 700, dtype="float32")


STEP = Step(iteration=0, parameters=0, graph=0, search=True, update=True)


class Held:
    """A handle of a partial result."""

    def __init__(self, value: PartialResult) -> None:
        self.value = value


class Counting(SerialExecutor):
    """Notes the most partial results that are held at once."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.context = context
        self.held: weakref.WeakSet[Held] = weakref.WeakSet()
        self.most = 0

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Handles of partial results in place of these."""
        plain = [a.value if isinstance(a, Held) else a for a in arguments]
        found = super().submit(name, index, function, *plain)
        if not isinstance(found, PartialResult):
            return found
        handle = Held(found)
        self.held.add(handle)
        self.most = max(self.most, len(self.held))
        return handle


def executor_of(n_groups: int, precision: str = "float32") -> Counting:
    """A run that is about to make its first pass, with random neighbours and kept components."""
    settings = Settings(n_components=6, n_factors=3, precision=precision)
    context = make_context(ROWS, settings, n_groups)
    start = make_start(make_mixture(6, 8, 3, seed=4), len(ROWS), settings.truncation, settings.graph_size)
    initialize(SerialExecutor(context), start)
    return Counting(context)


@pytest.mark.parametrize(("n_groups", "levels"), [(1, 0), (8, 0), (9, 1), (64, 1), (65, 2), (520, 3)])
def test_few_results_wait(n_groups: int, levels: int) -> None:
    executor = executor_of(n_groups)
    run_pass(executor, STEP)
    assert levels_above_merging(n_groups) == levels
    assert 1 <= executor.most <= min(n_groups, FAN_IN) + 1 + levels


def in_order(parts: Sequence[np.ndarray]) -> np.ndarray:
    """((a + b) + c) + … in float64."""
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total = total + part
    return total


def in_a_tree(parts: Sequence[np.ndarray], dtype: str) -> np.ndarray:
    """What tasks that take eight parts at once, and round what they make, give."""
    while len(parts) > FAN_IN:
        parts = [in_order(parts[k : k + FAN_IN]).astype(dtype) for k in range(0, len(parts), FAN_IN)]
    return in_order(parts)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_groups", [7, 9, 17, 64, 65, 73, 520])
def test_sums_are_those_of_a_tree(n_groups: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(n_groups, precision)
    leaves = [run_e_step(executor.context, g, STEP).statistics[0].moments for g in range(n_groups)]
    seen: list[tuple[PartialResult, ...]] = []

    def update(context: RunContext, block: int, step: Step, *results: PartialResult) -> BlockReport:
        seen.append(results)
        return known(context, block, step, *results)

    known = passes.update_block
    monkeypatch.setattr(passes, "update_block", update)
    run_pass(executor, STEP)
    (results,) = seen
    for name, dtype in (("counts", "float64"), ("factor_moments", "float64"), ("moments", precision)):
        found = in_order([getattr(r.statistics[0].moments, name) for r in results])
        np.testing.assert_array_equal(found, in_a_tree([getattr(leaf, name) for leaf in leaves], dtype), name)


@pytest.mark.parametrize("n_groups", [9, 64, 70])
def test_parts_of_the_last_node_that_wait_give_the_bytes_of_their_sum(
    n_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = fixed_passes(30, 3, n_groups=n_groups, max_warmup_iter=2, max_iter=3)
    options |= {"locality": True, "init_params": "uniform"}
    waiting = parameters(fit_local(ROWS, **options).model)
    monkeypatch.setattr(passes, "reorders_rows", lambda settings: False)
    assert parameters(fit_local(ROWS, **options).model) == waiting
