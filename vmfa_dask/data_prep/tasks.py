"""Maps a function over many items, in threads of this process or on a Dask cluster, until the first error.

Imports `cores`; Dask only when a cluster is asked for.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from vmfa_dask.data_prep.cores import available_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_IN_FLIGHT = 256
"""Tasks sent to the scheduler ahead of their turn: it keeps a description of each in memory."""


def each(
    function: Callable[[Item], Result], items: Iterable[Item], client: Any = None, workers: int | None = None
) -> Iterator[Result]:
    """Call a function with each item.

    Parameters
    ----------
    function : callable
        With a `client` it is sent to workers, and must be at the top level of a module.
    items : iterable
        Consumed as tasks end, at most `TASKS_IN_FLIGHT` ahead.
    client : distributed.Client, optional
        Workers that run the tasks; by default threads of this process.
    workers : int, optional
        Number of threads; by default one per available core.

    Yields
    ------
    Any
        Results: in order of completion on a cluster, in the order of the items from threads. The first error of a task
        is raised and cancels all tasks that have not started.
    """
    return _on_cluster(function, items, client) if client is not None else _in_threads(function, items, workers)


def _on_cluster(function: Callable[[Item], Result], items: Iterable[Item], client: Any) -> Iterator[Result]:
    from distributed import as_completed

    waiting = iter(items)
    futures = client.map(function, list(itertools.islice(waiting, TASKS_IN_FLIGHT)), pure=False)
    completed = as_completed(futures, loop=client.loop)  # type: ignore[no-untyped-call]
    for future in completed:
        result = future.result()
        for item in itertools.islice(waiting, 1):
            completed.add(client.submit(function, item, pure=False))  # type: ignore[no-untyped-call]
        yield result


def _in_threads(function: Callable[[Item], Result], items: Iterable[Item], workers: int | None) -> Iterator[Result]:
    n_threads = workers or available_cores()
    with ThreadPoolExecutor(n_threads) as pool:
        yield from in_order(pool, function, items, 2 * n_threads)


def in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], in_flight: int
) -> Iterator[Result]:
    """Call a function with each item in a pool, and keep the order.

    Parameters
    ----------
    pool : Executor
        Runs the calls.
    function : callable
        With one argument.
    items : iterable
        Consumed as results are taken.
    in_flight : int
        Largest number of calls whose results have not been yielded yet.

    Yields
    ------
    Any
        Results in the order of the items. Leaving early cancels calls that have not started.
    """
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= in_flight:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
