"""Plans cover every row and component once, follow the chunks of the rows, and project the memory that they need."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from vmfa_dask.run.plan import BLOCK_BYTES, make_plan
from vmfa_dask.run.projection import parameters_bytes, projected_bytes, stored_bytes
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings


class Shape:
    """A row source of a size, without rows."""

    def __init__(
        self, n_rows: int, n_features: int, dtype: str = "uint8", chunk_rows: int = 1, decoded: int = 0
    ) -> None:
        self.n_rows, self.feature_shape, self.chunk_rows = n_rows, (n_features,), chunk_rows
        self.decoded_rows, self.reads_parts, self.bytes_read = decoded or chunk_rows, True, 0
        self.dtype: np.dtype = np.dtype(dtype)

    def read(self, start: int, stop: int) -> np.ndarray:
        raise AssertionError("a plan reads no rows")

    def describe(self, row: int) -> str:
        raise AssertionError("a plan describes no rows")


def covers(ranges: tuple[tuple[int, int], ...], n: int) -> bool:
    edges = [ranges[0][0], *(stop for _, stop in ranges)]
    return (
        edges[0] == 0
        and edges[-1] == n
        and list(ranges) == list(itertools.pairwise(edges))
        and all(a < b for a, b in ranges)
    )


@pytest.mark.parametrize("n_rows", [10, 1003, 50_000])
@pytest.mark.parametrize("chunk_rows", [1, 100, 7777])
@pytest.mark.parametrize("n_groups", [None, 1, 3, 64])
def test_every_row_and_component_once(n_rows: int, chunk_rows: int, n_groups: int | None) -> None:
    plan = make_plan(Shape(n_rows, 3072, chunk_rows=chunk_rows), Settings.paper(10), n_groups)
    assert covers(plan.groups, n_rows)
    assert covers(plan.component_blocks, 10)
    assert plan.n_rows == n_rows
    assert 0 < plan.tile_rows <= plan.block_rows
    if n_groups is not None:
        assert len(plan.groups) <= n_groups


def test_groups_and_blocks_begin_at_chunks() -> None:
    plan = make_plan(Shape(50_000, 3072, chunk_rows=500), Settings.paper(100, truncation=3))
    assert len(plan.groups) > 1
    assert all(start % 500 == 0 for start, _ in plan.groups)
    assert plan.block_rows % 500 == 0


def test_groups_are_worth_a_task() -> None:
    """Few components take little time per row, so that a group has many rows; where models are large, few do."""
    rows = Shape(10**6, 3072, chunk_rows=100)
    few, many = (len(make_plan(rows, Settings.paper(c, truncation=min(3, c))).groups) for c in (2, 200))
    assert 10 <= few <= 60
    assert few < many / 3
    assert len(make_plan(Shape(10**4, 3), Settings.paper(2, truncation=1)).groups) == 2
    assert len(make_plan(Shape(10**9, 3072), Settings.paper(800)).groups) == 512


def test_few_large_chunks_are_cut() -> None:
    plan = make_plan(Shape(1000, 8, chunk_rows=600), Settings.paper(10), n_groups=4)
    assert len(plan.groups) == 4


def test_many_components_are_cut_into_blocks() -> None:
    plan = make_plan(Shape(10**6, 3072), Settings.paper(60_000))
    assert len(plan.component_blocks) > 1
    assert covers(plan.component_blocks, 60_000)


def test_blocks_are_bounded_in_bytes() -> None:
    plan = make_plan(Shape(10**8, 3072, "float64"), Settings.paper(100))
    assert plan.block_rows * 3072 * 8 <= BLOCK_BYTES


@pytest.mark.parametrize("n_groups", [0, -1])
def test_no_groups_are_refused(n_groups: int) -> None:
    with pytest.raises(ValueError, match=f"n_groups={n_groups}"):
        make_plan(Shape(100, 8), Settings.paper(10), n_groups)


def test_plan_is_a_function_of_data_and_settings() -> None:
    assert make_plan(Shape(5000, 20), Settings.paper(10)) == make_plan(
        ArrayRows(np.zeros((5000, 20), np.uint8)), Settings.paper(10)
    )


def test_projection_grows_with_what_it_counts() -> None:
    def project(n_rows: int = 20_000, d: int = 300, c: int = 50, h: int = 5, dtype: str = "uint8") -> dict[str, int]:
        rows, settings = Shape(n_rows, d, dtype), Settings.paper(c, h)
        return projected_bytes(rows, settings, make_plan(rows, settings, 2))

    base = project()
    assert base["model"] >= 50 * 300 * 7 * 4
    assert base["statistics"] >= 50 * 300 * 7 * 8
    assert base["rows"] >= 10_000 * 300
    assert project(c=500)["model"] > 9 * base["model"]
    assert base["search"] >= 2 * 20 * 50 * 50
    assert project(c=500)["search"] > 9 * base["search"]
    assert project(h=10)["statistics"] > 1.6 * base["statistics"]
    assert project(dtype="float64")["rows"] > 4 * base["rows"]
    assert project(n_rows=10**9)["rows"] < 2**30  # blocks are bounded, whatever the number of rows


def test_parameters_in_files_are_projected_as_scratch() -> None:
    """One packed form and the means are in memory, three versions of the parameters are not."""
    rows, settings = Shape(2_000_000, 192), Settings.paper(50_000, 5)
    one = parameters_bytes(rows, settings)
    parts = projected_bytes(rows, settings, make_plan(rows, settings))
    assert one < parts["model"] < 1.4 * one
    assert 3 * one < stored_bytes(rows, settings) < stored_bytes(rows, settings, shared=True) - 2 * one
    assert stored_bytes(rows, settings) > 3 * one + 2 * 4 * 3 * 2_000_000


def test_seeding_is_projected_where_it_takes_more_than_passes() -> None:
    rows, settings = Shape(2_000_000, 192), Settings.paper(5_000, 0, covariance_type="diagonal")
    by_chain = [
        projected_bytes(rows, s, make_plan(rows, s))["seeding"]
        for s in (replace(settings, init_params="uniform"), replace(settings, init_params="afkmc2", chain_length=5_000))
    ]
    assert by_chain[0] == 0
    assert by_chain[1] > 5_000 * 5_000 * 192


@pytest.mark.parametrize(("n_rows", "shard", "unit"), [(50_000, 21_824, 682), (2_000_000, 21_824, 21_824)])
def test_groups_begin_at_shards_where_they_are_about_equal_all_the_same(n_rows: int, shard: int, unit: int) -> None:
    plan = make_plan(Shape(n_rows, 3072, chunk_rows=shard, decoded=682), Settings.paper(800), 2)
    assert all(start % unit == 0 for start, _ in plan.groups)
    sizes = [stop - start for start, stop in plan.groups]
    assert max(sizes) < 1.15 * min(sizes)


@pytest.mark.parametrize(("chunk", "decoded"), [(1365, 1365), (21_824, 682), (60_000, 500), (50_000, 50_000)])
def test_no_small_rest_of_a_block_is_left(chunk: int, decoded: int) -> None:
    rows = Shape(50_000, 3072, chunk_rows=chunk, decoded=decoded)
    plan = make_plan(rows, Settings.paper(800), 2)
    assert all(stop - start <= plan.block_rows for start, stop in plan.groups)
    assert plan.block_rows * 3072 < 1.3 * BLOCK_BYTES


def test_what_is_decoded_together_is_projected() -> None:
    rows = Shape(400_000, 3072, chunk_rows=400_000)
    small = projected_bytes(rows, Settings.paper(10), make_plan(rows, Settings.paper(10)))
    rows.reads_parts = False
    whole = projected_bytes(rows, Settings.paper(10), make_plan(rows, Settings.paper(10)))
    assert whole["rows"] >= 400_000 * 3072 > small["rows"]


def test_groups_of_very_many_components_follow_from_their_work() -> None:
    """Their sums are of the components that a group touches: more of them cost little more merging."""
    rows = Shape(5_000_000, 192)
    settings = Settings.paper(100_000, truncation=3, neighborhood=15, locality=True)
    assert len(make_plan(rows, settings).groups) == 64
    fewer = make_plan(Shape(200_000, 192), settings).groups
    assert 2 <= len(fewer) < 8
    # Where rows are not in the order of their cells, each group touches all components.
    assert len(make_plan(rows, Settings.paper(100_000, truncation=3, neighborhood=15)).groups) == 2
    few = Settings.paper(19_999, truncation=3, locality=True)
    assert len(make_plan(rows, few).groups) == 5_000_000 // (30 * 19_999)
