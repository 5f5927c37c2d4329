"""The small parts around the algorithm: rows, threads, storage, values, records."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.samples import make_mixture
from vmfa_dask import addresses
from vmfa_dask.em.rows import working_rows
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.row_source import ArrayRows, gather, non_finite_row, read_ahead, refuse_non_finite
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Mixture, NeighborGraph, RowTally


@pytest.mark.parametrize("stored", ["uint8", "int8", "uint16", "int16", "float32"])
def test_rows_that_kernels_convert_are_passed_on_untouched(stored: str) -> None:
    block = np.ones((5, 3), stored)
    for dtype in ("float32", "float64"):
        found = working_rows(block, np.zeros(3), dtype)
        assert found.__array_interface__["data"][0] == block.__array_interface__["data"][0]  # no copy
        assert (found.dtype, found.shape, found.flags.writeable) == (block.dtype, block.shape, False)


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [
        ("float64", "float32"),
        ("int32", "float32"),
        ("uint64", "float64"),
        (">f4", "float32"),
        (">i2", "float32"),
        ("float16", "float32"),
    ],
)
def test_other_rows_are_converted(stored: str, dtype: str) -> None:
    block = np.arange(600 * 3).reshape(600, 3).astype(stored)
    found = working_rows(block, np.zeros(3), dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, block.astype(np.float64))


@pytest.mark.parametrize("stored", ["uint8", "float32", "float64", "int64"])
def test_offset_is_subtracted_before_rows_are_narrowed(stored: str) -> None:
    offset = np.array([100.0, 0.25, -7.0])
    block = np.full((300, 3), 120).astype(stored)
    found = working_rows(block, offset, "float32")
    np.testing.assert_array_equal(found, np.tile([20.0, 119.75, 127.0], (300, 1)))
    large = np.full((2, 3), 2**24 + 1.0)
    np.testing.assert_array_equal(working_rows(large, np.full(3, 2.0**24), "float32"), 1.0)


@pytest.mark.parametrize("block_rows", [1, 4, 10, 100])
def test_reading_ahead_gives_all_blocks_in_order(block_rows: int) -> None:
    data = np.arange(30).reshape(10, 3)
    blocks = list(read_ahead(ArrayRows(data), 1, 9, block_rows))
    assert [first for first, _ in blocks] == list(range(1, 9, block_rows))
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), data[1:9])


def test_reading_ahead_reports_errors() -> None:
    class Broken(ArrayRows):
        def read(self, start: int, stop: int) -> np.ndarray:
            if start == 4:
                raise OSError("chunk 2 is gone")
            return super().read(start, stop)

    with pytest.raises(OSError, match="chunk 2 is gone"):
        list(read_ahead(Broken(np.zeros((10, 2))), 0, 10, 2))


def test_gathered_rows_come_in_the_order_asked_for() -> None:
    data = np.arange(30).reshape(10, 3)
    np.testing.assert_array_equal(gather(ArrayRows(data), np.array([7, 0, 7])), data[[7, 0, 7]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_rows_are_named(bad: float) -> None:
    block = np.zeros((6, 4), np.float32)
    assert non_finite_row(block) is None
    block[3, 2] = block[5, 0] = bad
    assert non_finite_row(block) == 3
    with pytest.raises(ValueError, match=r"row 103, feature 2: found") as refused:
        refuse_non_finite(ArrayRows(block), 100, block)
    assert ("complete and score_observed of a fitted model" in str(refused.value)) == np.isnan(bad)
    assert non_finite_row(np.zeros((2, 2), np.uint8)) is None


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), "reshape"),
        (np.zeros((0, 5)), "holds no values"),
        (np.zeros((3, 2), complex), "complex128"),
        (np.zeros((3, 2), "U3"), "<U3"),
        (np.zeros((3, 2), bool), "bool"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(array: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArrayRows(array)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 1000])
def test_ranges_cover_the_work(n_threads: int, n: int) -> None:
    cores = Cores(n_threads)
    work = np.random.default_rng(0).integers(0, 40, n) * (np.arange(n) % 3 > 0)
    for ranges in (cores.split(n), cores.split(n, 1), cores.split_by_work(np.concatenate([[0], np.cumsum(work)]))):
        assert [k for a, b in ranges for k in range(a, b)] == list(range(n))
    assert cores.split(0) == []
    assert cores.run(lambda a, b: (a, b), cores.split(n)) == cores.split(n)


def test_work_is_split_evenly() -> None:
    work = np.array([1000] + [1] * 999 + [1000] * 3)
    indptr = np.concatenate([[0], np.cumsum(work)])
    parts = [indptr[b] - indptr[a] for a, b in Cores(2).split_by_work(indptr)]
    assert max(parts) <= 1000 + indptr[-1] / 16


def test_errors_of_threads_reach_the_caller() -> None:
    def fail(a: int, b: int) -> None:
        if a:
            raise ArithmeticError(f"part {a}")

    with pytest.raises(ArithmeticError, match="part"):
        Cores(2).run(fail, [(0, 1), (1, 2)])


def test_one_task_computes_at_a_time() -> None:
    inside, most, cores, barrier = 0, 0, Cores(2), threading.Barrier(4)

    def work() -> None:
        nonlocal inside, most
        barrier.wait(10)
        with cores.exclusive():
            inside += 1
            most = max(most, inside)
            cores.run(lambda a, b: None, [(0, 1), (1, 2)])
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1


def test_memory_storage() -> None:
    storage = MemoryStorage()
    storage.write(addresses.Parameters(1, 0), {"a": np.arange(3)})
    storage.write(addresses.Parameters(2, 0), {"a": np.arange(4)})
    np.testing.assert_array_equal(storage.read(addresses.Parameters(1, 0))["a"], [0, 1, 2])
    assert not storage.read(addresses.Parameters(1, 0))["a"].flags.writeable
    storage.discard("parameters", 1)
    storage.discard("parameters", 9)
    with pytest.raises(KeyError):
        storage.read(addresses.Parameters(1, 0))
    assert len(storage.read(addresses.Parameters(2, 0))["a"]) == 4


def test_mixtures_are_checked_and_frozen() -> None:
    m = make_mixture(3, 5, 2)
    assert (m.n_components, m.n_features, m.n_factors, m.feature_shape) == (3, 5, 2, (5,))
    with pytest.raises(ValueError, match="read-only"):
        m.means[0, 0] = 1
    for name, value, message in [
        ("weights", np.ones(2) / 2, r"weights has shape \(2,\), expected \(3,\)"),
        ("weights", np.ones(3), "sum to 1, found a sum of 3"),
        ("weights", np.array([-0.5, 0.5, 1.0]), "weights must be >= 0"),
        ("loadings", np.zeros((3, 2, 4)), r"loadings has shape \(3, 2, 4\)"),
        ("noise_variances", np.zeros((3, 5)), "noise_variances must be positive"),
        ("noise_variances", np.full((3, 5), np.nan), "noise_variances must be positive"),
        ("feature_shape", (2, 2), r"feature_shape \(2, 2\) does not hold the 5 features"),
        ("offset", np.zeros(4), r"offset has shape \(4,\)"),
    ]:
        fields = {key: getattr(m, key) for key in ("weights", "means", "loadings", "noise_variances")}
        with pytest.raises(ValueError, match=message):
            Mixture(**{**fields, name: value})


@pytest.mark.parametrize(
    ("neighbors", "message"),
    [
        ([[1, 0], [1, 0]], "column 0"),
        ([[0, 2], [1, 0]], r"-1\.\.1"),
        ([[0, -2], [1, 0]], r"-1\.\.1"),
        ([0, 1], r"\(C, G\)"),
    ],
)
def test_graphs_are_checked(neighbors: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeighborGraph(np.array(neighbors))


def test_row_tallies_add_up() -> None:
    total = RowTally(2, 10, -5.0, {"read": 1.0}) + RowTally(3, 7, -1.0, {"read": 0.5, "search": 2.0})
    assert total == RowTally(5, 17, -6.0, {"read": 1.5, "search": 2.0})


def test_a_record_is_one_line_and_plain_values() -> None:
    record = IterationRecord(4, "training", -12.5, 1e-3, 9.5, 950, 1e4, 0.01, {"search": 0.1}, 19, (3, 7))
    assert "\n" not in record.line()
    for part in ("training", "4", "-12.5", "1.00e-03", "9.5", "19 components", "dropped 2"):
        assert part in record.line()
    assert record.as_dict()["seconds_per_phase"] == {"search": 0.1}
