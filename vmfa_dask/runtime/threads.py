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

from vmfa_dask.runtime.quotas import quota_of_cores
from vmfa_dask.values import Int64

# A task that waits for the cores asks no more often whether it should.
SECONDS_OF_WAITING = 1.0


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
        self._pool = ThreadPoolExecutor(self.n_threads, "vmfa-kernel") if self.n_threads > 1 else None

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
        wait = None if self._while_waiting is None else SECONDS_OF_WAITING
        while not _turns.acquire(hurry, wait):
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
        if self._pool is None or len(ranges) < 2:
            return [function(start, stop) for start, stop in ranges]
        return list(self._pool.map(lambda r: function(*r), ranges))

    def split(self, n: int, parts_per_thread: int = 4) -> list[tuple[int, int]]:
        """Cut ``0:n`` into about equal ranges.

        Parameters
        ----------
        n : int
            The number of items.
        parts_per_thread : int
            Ranges for each thread.

        Returns
        -------
        list of (int, int)
        """
        parts = max(1, min(n, self.n_threads * parts_per_thread if self.n_threads > 1 else 1))
        edges = [n * k // parts for k in range(parts + 1)]
        return [(a, b) for a, b in itertools.pairwise(edges) if a < b]

    def split_by_work(self, indptr: Int64) -> list[tuple[int, int]]:
        """Cut components into ranges with about equal numbers of entries.

        Parameters
        ----------
        indptr : (C + 1,) int64 array
            Offsets of the entries of each component.

        Returns
        -------
        list of (int, int)
        """
        parts = self.n_threads * 8 if self.n_threads > 1 else 1
        targets = np.linspace(indptr[0], indptr[-1], parts + 1)[1:-1]
        edges = np.unique(np.concatenate([[0], np.searchsorted(indptr, targets), [len(indptr) - 1]]))
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
