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
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

from vmfa_dask.runtime.quotas import quota_of_cores
from vmfa_dask.values import Int64

# A task that waits for the cores asks no more often whether it should.
SECONDS_OF_WAITING = 1.0
# Waking a thread takes 50 to 100 µs, in which a core makes some two million operations.
_FEW_OPERATIONS = 2e6


def available_cores() -> int:
    """Cores this process may use: those it may run on, and no more than its quota of CPU time, rounded up.

    Returns
    -------
    int
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_of_cores()
    return cores if quota is None else min(cores, math.ceil(quota))


class _Turns:
    """A lock that those get first who are in a hurry, whoever came before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held, self._hurried = False, 0

    def acquire(self, hurry: bool, timeout: float | None) -> bool:
        """Wait for the turn; whether it came within `timeout` seconds."""
        with self._changed:
            self._hurried += hurry
            try:
                came = self._changed.wait_for(lambda: not self._held and (hurry or not self._hurried), timeout)
            finally:
                self._hurried -= hurry
                self._changed.notify_all()
            self._held = self._held or came
            return came

    def release(self) -> None:
        """Let the next one have it."""
        with self._changed:
            self._held = False
            self._changed.notify_all()


_turns = _Turns()


class _SharedRanges:
    """Ranges that several threads work off, each taking the next one when it is done with its last."""

    def __init__(self, function: Callable[..., Any], ranges: list[tuple[int, int]]) -> None:
        self.results: list[Any] = [None] * len(ranges)
        self._function, self._ranges = function, ranges
        self._next = iter(range(len(ranges)))  # taking from it is one step of the interpreter: no lock needed

    def work(self) -> None:
        """Take ranges until none is left; an error leaves none to the others."""
        try:
            for k in self._next:
                self.results[k] = self._function(*self._ranges[k])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave no range to other threads."""
        for _ in self._next:
            pass


class Cores:
    """A fixed number of threads for kernels.

    Parameters
    ----------
    n_threads : int
        Threads that compute at the same time; results never depend on it.
    while_waiting : callable, optional
        Called from time to time in a task that waits for the cores; an error of it ends the task.
    """

    def __init__(self, n_threads: int, while_waiting: Callable[[], None] | None = None) -> None:
        self.n_threads, self._while_waiting = max(1, n_threads), while_waiting
        # The thread that calls `run` computes as well.
        self._pool = ThreadPoolExecutor(self.n_threads - 1, "vmfa-kernel") if self.n_threads > 1 else None

    @contextmanager
    def exclusive(self, hurry: bool = False) -> Iterator[None]:
        """Hold the cores of this process: other tasks that want them wait.

        Tasks that free memory are in a hurry and go first: while they waited among tasks that make new results, 21
        results were held where 9 are enough (64 groups, one worker of two threads).

        Parameters
        ----------
        hurry : bool
            Go first.

        Yields
        ------
        None
        """
        timeout = None if self._while_waiting is None else SECONDS_OF_WAITING
        while not _turns.acquire(hurry, timeout):
            if self._while_waiting is not None:
                self._while_waiting()
        try:
            yield
        finally:
            _turns.release()

    def run(self, function: Callable[..., Any], ranges: Iterable[tuple[int, int]]) -> list[Any]:
        """Call a function for every range, in any order.

        Parameters
        ----------
        function : callable
            Called as ``function(start, stop)``.
        ranges : iterable of (int, int)
            The ranges.

        Returns
        -------
        list
            Results in the order of the ranges.
        """
        ranges = list(ranges)
        others = min(self.n_threads, len(ranges)) - 1
        if self._pool is None or others < 1:
            return [function(start, stop) for start, stop in ranges]
        shared = _SharedRanges(function, ranges)
        # This thread takes ranges too: waking another costs some 50 µs, as much as all the work of a small problem.
        futures = [self._pool.submit(shared.work) for _ in range(others)]
        try:
            shared.work()
        finally:
            shared.close()
            # Whoever has not begun has nothing left to do. The others must be done before their arrays are used.
            running = [future for future in futures if not future.cancel()]
            wait(running)
        for future in running:
            future.result()
        return shared.results

    def split(self, n: int, operations: float = math.inf, parts_per_thread: int = 4) -> list[tuple[int, int]]:
        """Cut ``0:n`` into about equal ranges, or into one where that is done sooner than another thread wakes.

        Parameters
        ----------
        n : int
            The number of items.
        operations : float
            Arithmetic operations per item, roughly; with many, the ranges are for all threads.
        parts_per_thread : int
            Ranges for each thread.

        Returns
        -------
        list of (int, int)
        """
        parts = 1 if self._stays_here(n * operations) else max(1, min(n, self.n_threads * parts_per_thread))
        edges = [n * k // parts for k in range(parts + 1)]
        return [(a, b) for a, b in itertools.pairwise(edges) if a < b]

    def split_by_work(self, indptr: Int64, operations: float = math.inf) -> list[tuple[int, int]]:
        """Cut components into ranges with about equal numbers of entries, or into one as `split` does.

        Parameters
        ----------
        indptr : (C + 1,) int64 array
            Offsets of the entries of each component.
        operations : float
            Arithmetic operations per entry, roughly.

        Returns
        -------
        list of (int, int)
        """
        if self._stays_here(float(indptr[-1] - indptr[0]) * operations):
            return [(0, len(indptr) - 1)]
        parts = self.n_threads * 8
        targets = np.linspace(indptr[0], indptr[-1], parts + 1)[1:-1]
        edges = np.unique(np.concatenate([[0], np.searchsorted(indptr, targets), [len(indptr) - 1]]))
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    def _stays_here(self, operations: float) -> bool:
        return self.n_threads == 1 or operations < _FEW_OPERATIONS
