"""Plans of runs: their numbers follow from the sizes, and from rates that are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import plan_run
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.costs import Layout, Rate, Rates, n_tasks, seconds_of_pass, units_of_pass
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.starts.initialization import initialize
from vmfa_dask.run.state import RunState
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.service import rates as measuring

ROWS = draw(make_mixture(5, 8, 3), 600, dtype="float32")
SETTINGS = Settings(n_components=6, n_factors=3, truncation=2, neighborhood=3, init_params="uniform")
PHASES = tuple(units_of_pass(1, 1, 1, 1))
RATES = Rates(dict.fromkeys(PHASES, Rate(1e-8, 1e-7)), 7.0, 1e10, 1e9, 1e-3)


class CountingExecutor(SerialExecutor):
    """Counts the tasks that it is given."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.submitted: Counter[str] = Counter()

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        self.submitted[name] += 1
        return super().submit(name, index, function, *arguments)


@pytest.mark.parametrize("locality", [False, True])
@pytest.mark.parametrize("n_groups", [1, 2, 8, 9, 40, 65, 100])
def test_a_pass_has_the_tasks_that_are_planned(n_groups: int, locality: bool) -> None:
    rows, settings = ArrayRows(ROWS), replace(SETTINGS, locality=locality)
    plan = make_plan(rows, settings, n_groups)
    executor = CountingExecutor(RunContext(rows, settings, plan, MemoryStorage(), Cores(1)))
    state = RunState.first(settings, initialize(executor))
    executor.submitted.clear()
    run_pass(executor, state.step(settings))
    assert executor.submitted.total() == n_tasks(settings, plan)


def seconds(n_rows: int, layout: Layout, **settings: Any) -> dict[str, float]:
    plan = plan_run(
        n_rows=n_rows, n_features=8, n_components=6, n_factors=3, rates=RATES, machines=layout.machines,
        processes=layout.processes, threads=layout.threads, n_groups=64, **settings,
    )  # fmt: skip
    return plan.seconds


def test_work_of_rows_grows_with_them_and_is_shared_by_processes_and_threads() -> None:
    one = seconds(100_000, Layout(1, 1, 1))
    assert one["log_joints"] == pytest.approx(100_000 * 6 * 1.1e-7)  # no more candidates than components
    assert seconds(200_000, Layout(1, 1, 1))["log_joints"] == pytest.approx(2 * one["log_joints"])
    assert seconds(100_000, Layout(2, 4, 1))["log_joints"] == pytest.approx(one["log_joints"] / 8)
    threaded = seconds(100_000, Layout(1, 1, 10))["log_joints"]
    assert threaded == pytest.approx(one["log_joints"] * (1e-8 + 1e-8) / 1.1e-7)
    assert "scheduling" not in one
    assert seconds(100_000, Layout(1, 2, 1))["scheduling"] == pytest.approx(1e-3 * (64 + 2 * 8))


def test_exhaustive_search_evaluates_every_component() -> None:
    settings = Settings(n_components=50, search="exhaustive")
    rows = ArrayRows(ROWS)
    plan = make_plan(rows, settings)
    found = seconds_of_pass(rows, settings, plan, Layout(1, 1, 1), RATES)
    assert found["log_joints"] == pytest.approx(600 * 50 * 1.1e-7)


def test_rates_of_two_thread_counts_tell_what_one_thread_does_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {1: 10.0, 4: 4.0}

    def settled(table: Any, n_components: int, settings: Settings, threads: int) -> Any:
        return [type("Record", (), {
            "joints_per_row": 5.0, "seconds": taken[threads] + 0.5,
            "seconds_per_phase": {"log_joints": taken[threads]},
        })()]  # fmt: skip

    monkeypatch.setattr(measuring, "_settled", settled)
    monkeypatch.setattr(measuring, "available_cores", lambda: 4)
    monkeypatch.setattr(measuring, "seconds_of_task", lambda: 1e-3)
    rates = measuring.measure_rates(ArrayRows(ROWS), SETTINGS, ROWS)
    joints = rates.phases["log_joints"]
    assert joints.alone * 600 * 5 == pytest.approx(2.0)  # 2 + 8 on one thread, 2 + 8 / 4 on four
    assert joints.seconds(8) * 600 * 5 == pytest.approx(3.0)
    assert joints.share_alone == pytest.approx(0.2)
    assert rates.phases["rest"].share_alone == 1.0


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_plan_is_measured_on_rows_in_any_form(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "seconds_of_task", lambda: 1e-3)
    rows = ROWS if dtype == "float32" else np.clip(20 * ROWS + 100, 0, 255).astype("uint8")
    for data in (rows, write_store(tmp_path / "rows.zarr", rows, 100)):
        plan = plan_run(data, n_components=6, n_factors=3)
        assert (plan.n_rows, plan.n_features) == (600, 8)
        assert plan.seconds_per_pass > 0
        assert plan.limited_by in plan.seconds
        assert plan.moved["rows"] == 600 * 8 * rows.dtype.itemsize
        assert "20 passes" in str(plan)
    assert plan_run(rows, n_components=6, n_factors=3, n_rows=6000, rates=plan.rates).n_rows == 6000


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({}, "expected data, or n_rows and n_features"),
        ({"n_rows": 5}, "expected data, or n_rows and n_features"),
        ({"n_rows": 0, "n_features": 3}, "n_rows=0: expected a positive whole number"),
        ({"n_rows": 50, "n_features": 3, "machines": 0}, "machines=0: expected a positive whole number"),
        ({"n_rows": 50, "n_features": 3, "threads": 2.5}, "threads=2.5: expected a positive whole number"),
        ({"n_rows": 50, "n_features": 3, "n_components": 51}, "n_components=51"),
    ],
)
def test_what_cannot_be_planned_is_named(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_run(**{"n_components": 4, "rates": RATES, **keywords})
