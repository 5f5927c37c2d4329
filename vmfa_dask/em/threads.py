"""The cores of a process: kernels release the GIL, so plain threads run them side by side.

One kernel at a time is spread over all cores of the process (`Cores.exclusive`); whatever number of Dask threads the
user chose, no more threads compute than the process owns.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from vmfa_dask.em.quotas import quota_of_cores
from vmfa_dask.values import Int64

_exclusive = threading.Lock()
# A task that waits for the cores asks no more often whether it should.
SECONDS_OF_WAITING = 1.0


def available_cores() -> int:
    """Cores this process may use: those it may run on, and no more than its quota of CPU time, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_of_cores()
    return cores if quota is None else min(cores, math.ceil(quota))


class Cores:
    """A fixed number of threads for kernels.

    Parameters
    ----------
    n_threads : threads that compute at the same time; results never depend on it
    while_waiting : called from time to time in a task that waits for the cores; what it raises ends the task
    """

    def __init__(self, n_threads: int, while_waiting: Callable[[], None] | None = None) -> None:
        self.n_threads, self._while_waiting = max(1, n_threads), while_waiting
        self._pool = ThreadPoolExecutor(self.n_threads, "vmfa-kernel") if self.n_threads > 1 else None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the cores of this process: other tasks that want them wait."""
        if self._while_waiting is None:
            _exclusive.acquire()
        else:
            while not _exclusive.acquire(timeout=SECONDS_OF_WAITING):
                self._while_waiting()
        try:
            yield
        finally:
            _exclusive.release()

    def run(self, function: Callable[..., Any], ranges: Iterable[tuple[int, int]]) -> list[Any]:
        """``function(start, stop)`` for every range, in any order; results in the order of the ranges."""
        ranges = list(ranges)
        if self._pool is None or len(ranges) < 2:
            return [function(start, stop) for start, stop in ranges]
        return list(self._pool.map(lambda r: function(*r), ranges))

    def split(self, n: int, parts_per_thread: int = 4) -> list[tuple[int, int]]:
        """``0:n`` in about equal ranges, some for each thread."""
        parts = max(1, min(n, self.n_threads * parts_per_thread if self.n_threads > 1 else 1))
        edges = [n * k // parts for k in range(parts + 1)]
        return [(a, b) for a, b in itertools.pairwise(edges) if a < b]

    def split_by_work(self, indptr: Int64) -> list[tuple[int, int]]:
        """Ranges of components with about equal numbers of entries, from their (C + 1,) offsets."""
        parts = self.n_threads * 8 if self.n_threads > 1 else 1
        targets = np.linspace(indptr[0], indptr[-1], parts + 1)[1:-1]
        edges = np.unique(np.concatenate([[0], np.searchsorted(indptr, targets), [len(indptr) - 1]]))
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
