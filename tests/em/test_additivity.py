"""Statistics add up: however rows are cut, the sums are the same, and only what belongs together is summed."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.em.runs import assert_same_parameters, free_energies, make_context, train
from tests.samples import draw, make_mixture, make_start
from vmfa_dask import addresses
from vmfa_dask.em import statistics
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.handover import PartialResult
from vmfa_dask.run.passes import run_pass
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Statistics

SETTINGS = Settings.paper(
    8, 3, truncation=3, neighborhood=4, tol=0, warmup_tol=0, max_warmup_iter=2, max_iter=5, precision="float64"
)
ROWS = draw(make_mixture(8, 9, 3, spread=2.0), 700)
STEP = Step(iteration=0, parameters=0, graph=0, search=True, update=True)


def parts(plan: Plan) -> tuple[RunContext, list[PartialResult]]:
    """Partial E-steps of all groups of a plan, from one start."""
    context = make_context(ROWS, SETTINGS)
    context.plan = plan
    write_given_start(context.storage, SETTINGS, plan, make_start(make_mixture(8, 9, 3, seed=4, spread=2.0), 700, 3, 4))
    return context, [run_e_step(context, group, STEP) for group in range(len(plan.groups))]


def merge(parts: list[Statistics]) -> Statistics:
    return statistics.merge(parts, 8, 4, Cores(2), BufferPool())


def plan(edges: list[int], block_rows: int, tile_rows: int, components: int = 8) -> Plan:
    blocks = tuple((k, min(k + components, 8)) for k in range(0, 8, components))
    return Plan(tuple(itertools.pairwise(edges)), block_rows, tile_rows, blocks)


def arrays(part: Statistics) -> list[np.ndarray]:
    assert part.moments is not None
    assert part.divergences is not None
    m, d = part.moments, part.divergences
    return [m.counts, m.factor_moments, m.moments, d.indptr, d.ids, d.sums, d.counts]


def assert_equal(a: Statistics, b: Statistics, rounding: float = 1e-11) -> None:
    for x, y in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rounding, atol=rounding * np.abs(y).max(initial=0))


@pytest.mark.parametrize(
    "cut", [plan([0, 700], 64, 64), plan([0, 1, 350, 699, 700], 700, 700), plan([0, 233, 466, 700], 100, 30)]
)
def test_any_cut_of_the_rows_gives_the_same_sums(cut: Plan) -> None:
    _, (whole,) = parts(plan([0, 700], 700, 700))
    _, results = parts(cut)
    assert_equal(merge([result.statistics[0] for result in results]), whole.statistics[0])
    tallies = [result.tally for result in results]
    assert sum(tally.n_rows for tally in tallies) == 700
    assert sum(tally.n_joints for tally in tallies) == whole.tally.n_joints
    assert sum(tally.free_energy for tally in tallies) == pytest.approx(whole.tally.free_energy, rel=1e-12)


def kept(context: RunContext, group: int) -> np.ndarray:
    return context.storage.read(addresses.Posterior(1, group))["components"]


def test_posteriors_do_not_depend_on_the_cut() -> None:
    one, _ = parts(plan([0, 700], 700, 700))
    three, _ = parts(plan([0, 233, 466, 700], 100, 30))
    pieces = [kept(three, group) for group in range(3)]
    np.testing.assert_array_equal(np.concatenate(pieces), kept(one, 0))


def test_merging_is_associative_and_commutative() -> None:
    a, b, c = (result.statistics[0] for result in parts(plan([0, 150, 420, 700], 700, 700))[1])
    together = merge([a, b, c])
    assert_equal(merge([merge([a, b]), c]), together, 0.0)  # the order of a merge is ((a + b) + c)
    assert_equal(merge([a, merge([b, c])]), together)
    assert_equal(merge([c, a, b]), together)


def test_a_single_part_is_its_own_sum_and_stays_untouched() -> None:
    (result,) = parts(plan([0, 700], 700, 700))[1]
    before = [x.copy() for x in arrays(result.statistics[0])]
    assert_equal(merge([result.statistics[0]]), result.statistics[0], 0.0)
    merge([result.statistics[0], result.statistics[0]])
    for x, y in zip(arrays(result.statistics[0]), before, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("change", [{"version": 1}, {"start": 1}, {"stop": 7}])
def test_statistics_of_other_versions_or_blocks_are_refused(change: dict[str, int]) -> None:
    (result,) = parts(plan([0, 700], 700, 700))[1]
    part = result.statistics[0]
    with pytest.raises(ValueError, match="do not belong to version 0, components 0:8"):
        merge([part, replace(part, **change)])


def test_component_blocks_are_slices_of_the_whole() -> None:
    _, (whole,) = parts(plan([0, 700], 700, 700))
    _, (cut,) = parts(plan([0, 700], 700, 700, components=3))
    assert sorted(cut.statistics) == [0, 1, 2]
    for block, (start, stop) in enumerate([(0, 3), (3, 6), (6, 8)]):
        part, m, d = cut.statistics[block], whole.statistics[0].moments, whole.statistics[0].divergences
        assert (part.start, part.stop) == (start, stop)
        assert m is not None
        assert d is not None
        expected = Statistics(0, start, stop, m.block(start, stop), d.block(start, stop))
        assert_equal(part, expected, 0.0)
        assert 0 <= sys.getsizeof(part) - sum(x.nbytes for x in arrays(part)) < 3000


@pytest.mark.parametrize("n_groups", [2, 3, 20])
def test_number_of_groups_changes_rounding_only(n_groups: int) -> None:
    start = make_start(make_mixture(8, 9, 3, seed=4, spread=2.0), 700, 3, 4)
    (a, one), (b, other) = (train(make_context(ROWS, SETTINGS, n), start) for n in (1, n_groups))
    np.testing.assert_allclose(free_energies(a), free_energies(b), rtol=1e-12)
    assert_same_parameters(other, one, 1e-10)


def test_component_blocks_of_a_run_change_no_bit() -> None:
    results = []
    for size in (8, 3):
        context = make_context(ROWS, SETTINGS, 12)
        context.plan = replace(context.plan, component_blocks=plan([0, 700], 700, 700, size).component_blocks)
        results.append(train(context)[1])
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(results[1], name), getattr(results[0], name))


class Miscounting(SerialExecutor):
    """Gives the result of one group in place of another's, or nothing but half of its moments."""

    def __init__(self, context: RunContext, fault: str) -> None:
        super().__init__(context)
        self.fault = fault

    def submit(self, name: str, index: int, function: Any, *arguments: Any) -> Any:
        if name == "e-step" and index == 1 and self.fault == "group":
            arguments = (0, *arguments[1:])
        result = super().submit(name, index, function, *arguments)
        if name == "e-step" and index == 1 and self.fault == "moments":
            result.statistics[0].moments.counts[:] /= 2
        return result


@pytest.mark.parametrize(
    ("fault", "message"), [("group", "sums 567 rows, expected 700"), ("moments", "sum to .* rows")]
)
def test_rows_that_are_lost_or_counted_twice_stop_the_run(fault: str, message: str) -> None:
    context, _ = parts(plan([0, 100, 333, 700], 700, 700))
    with pytest.raises(RuntimeError, match=message):
        run_pass(Miscounting(context, fault), STEP)


def test_a_task_that_runs_twice_changes_nothing() -> None:
    context, (first,) = parts(plan([0, 700], 700, 700))
    before = kept(context, 0).copy()
    again = run_e_step(context, 0, STEP)
    assert_equal(again.statistics[0], first.statistics[0], 0.0)
    np.testing.assert_array_equal(kept(context, 0), before)
