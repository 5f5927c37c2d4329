"""Runs one function over many items, in threads of this process or on a Dask cluster, until the first error.

Imports `cores`; Dask only when a cluster is asked for.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from data_prep.cores import available_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_IN_FLIGHT = 256
"""Tasks that the scheduler knows at a time: a description of each lies in its memory until it has run."""


def each(
    function: Callable[[Item], Result], items: Iterable[Item], client: Any = None, workers: int | None = None
) -> Iterator[Result]:
    """Yield results as items are done; the first error ends the iteration and what was not begun.

    Parameters
    ----------
    function : callable
        Of the top level of a module where `client` is given, as it travels to workers.
    items : iterable
        Taken from as tasks end, `TASKS_IN_FLIGHT` ahead.
    client : distributed.Client, optional
        Workers that run the tasks; by default threads of this process.
    workers : int, optional
        Threads, by default one per available core.
    """
    return _on_cluster(function, items, client) if client is not None else _in_threads(function, items, workers)


def _on_cluster(function: Callable[[Item], Result], items: Iterable[Item], client: Any) -> Iterator[Result]:
    from distributed import as_completed

    waiting = iter(items)
    first = list(itertools.islice(waiting, TASKS_IN_FLIGHT))
    begun = client.map(function, first, pure=False)
    done = as_completed(begun, loop=client.loop)  # type: ignore[no-untyped-call]
    for future in done:
        result = future.result()
        for item in itertools.islice(waiting, 1):
            done.add(client.submit(function, item, pure=False))  # type: ignore[no-untyped-call]
        yield result


def _in_threads(function: Callable[[Item], Result], items: Iterable[Item], workers: int | None) -> Iterator[Result]:
    n_threads = workers or available_cores()
    with ThreadPoolExecutor(n_threads) as pool:
        yield from in_order(pool, function, items, 2 * n_threads)


def in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], in_flight: int
) -> Iterator[Result]:
    """Yield results in the order of the items, of which at most `in_flight` are begun and not yet yielded."""
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


def with_cluster(address: str | None, call: Callable[[Any], Result]) -> Result:
    """Call with a client of the scheduler at `address`, or with None where there is no address."""
    if address is None:
        return call(None)
    from distributed import Client

    with Client(address, timeout=30) as client:  # type: ignore[no-untyped-call]
        return call(client)
