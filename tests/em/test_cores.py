"""Ranges of work on the threads of a process."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from vmfa_dask.runtime.threads import Cores

MANY = 1e9


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 3, 1000])
def test_results_come_in_the_order_of_the_ranges(n_threads: int, n: int) -> None:
    cores = Cores(n_threads)
    ranges = cores.split(n, MANY)
    assert cores.run(lambda a, b: list(range(a, b)), ranges) == [list(range(a, b)) for a, b in ranges]
    assert [k for a, b in ranges for k in range(a, b)] == list(range(n))


def test_as_many_threads_compute_as_there_are_cores() -> None:
    cores, together = Cores(3), threading.Barrier(3, timeout=20)
    names = cores.run(lambda a, b: (together.wait(), threading.get_ident())[1], [(k, k + 1) for k in range(3)])
    assert len(set(names)) == 3
    assert threading.get_ident() in names


def test_little_work_stays_in_its_thread() -> None:
    cores = Cores(4)
    assert cores.split(100, operations=10) == [(0, 100)]
    assert cores.split_by_work(np.array([0, 4, 9]), operations=10) == [(0, 2)]
    assert len(cores.split(100, operations=MANY)) == 16
    assert len(cores.split_by_work(np.arange(101), operations=MANY)) == 32


@pytest.mark.parametrize("failing", ["first", "other"])
def test_an_error_ends_the_work_of_all_threads(failing: str) -> None:
    """Whoever meets it: no range begins afterwards, and nothing computes any more when `run` has ended."""
    cores, caller = Cores(2), threading.get_ident()
    both, running, begun = threading.Barrier(2, timeout=20), set(), []

    def work(a: int, b: int) -> None:
        if a < 2:
            both.wait()  # both threads have a range
        else:
            time.sleep(0.002)
        begun.append(a)
        running.add(a)
        try:
            if a < 2 and (threading.get_ident() == caller) == (failing == "first"):
                raise ValueError("a range")
        finally:
            running.discard(a)

    with pytest.raises(ValueError, match="a range"):
        cores.run(work, [(k, k + 1) for k in range(1000)])
    assert not running
    assert len(begun) < 1000
    assert cores.run(lambda a, b: b, [(0, 1), (1, 2)]) == [1, 2]
