"""Many independent tasks of which few are in flight. May import: run, cluster, distributed."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from distributed import CancelledError, Client, as_completed

from vmfa_dask.cluster.pauses import PauseWatch
from vmfa_dask.cluster.worker_watch import WorkerWatch
from vmfa_dask.cluster.workers import cancel, check_connection, naming_a_lost_scheduler
from vmfa_dask.run.executor import SchedulerLost


def run_bounded(
    client: Client,
    name: str,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    most: int,
    on_done: Callable[[tuple[Any, ...]], None],
) -> None:
    """Call a function on workers for each tuple of arguments. Dask repeats the tasks of a worker that dies.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    name : str
        What the tasks do; the dashboard groups and labels by it.
    function : callable
        Its result is dropped.
    calls : iterable of tuple
        Arguments of each task.
    most : int
        Tasks that are in flight.
    on_done : callable
        Called here with the arguments of each task that has ended well.

    Raises
    ------
    SchedulerLost
        When the connection to the scheduler broke.
    RuntimeError
        When a task failed on a worker that cannot work with the others.
    Exception
        What a task has raised; the others are cancelled.
    """
    waiting, numbers, run = iter(calls), itertools.count(), uuid.uuid4().hex[:8]
    watch, in_flight = WorkerWatch(client), dict[Any, tuple[Any, ...]]()

    def submit(call: tuple[Any, ...]) -> Any:
        check_connection(client)
        number = next(numbers)
        # Earlier ones first: Dask would begin with the last of those that are submitted together.
        future = client.submit(function, *call, key=(f"{name}-{run}", number), pure=False, priority=-number)
        in_flight[future] = call
        return future

    try:
        with naming_a_lost_scheduler(client), PauseWatch(client):
            completed = as_completed([submit(call) for call in itertools.islice(waiting, most)], loop=client.loop)
            for future in completed:
                client.gather([future])  # raises what the task has raised
                on_done(in_flight[future])
                del in_flight[future]  # not before: an interrupt in `on_done` cancels this one as well
                watch.look()
                for call in itertools.islice(waiting, 1):
                    completed.add(submit(call))
    except (CancelledError, SchedulerLost):
        raise
    except BaseException as error:
        cancel(client, list(in_flight))
        if isinstance(error, Exception):
            watch.explain(error)
        raise
