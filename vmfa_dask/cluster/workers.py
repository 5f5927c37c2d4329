"""The workers of a cluster: waiting for the first ones, asking them, and noticing that their scheduler went away.

May import: run, distributed.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed import CancelledError, Client, TimeoutError
from distributed.comm.core import CommClosedError

from vmfa_dask.run.executor import SchedulerLost

logger = logging.getLogger(__name__)

# Name of the task that a cluster without workers is given.
_CALL = "vmfa-call-workers"
_LEAVING = ("closing", "closing_gracefully", "closed", "failed")

# What a call to a scheduler that went away ends with, depending on the moment.
LOSSES = (CancelledError, CommClosedError, TimeoutError, OSError)


@contextmanager
def naming_a_lost_scheduler(client: Client) -> Iterator[None]:
    """Turn errors of the enclosed lines into `SchedulerLost` when the connection to the scheduler is gone.

    Parameters
    ----------
    client : distributed.Client
        Whose connection it is.

    Raises
    ------
    SchedulerLost
        With the address of the scheduler.
    """
    try:
        yield
    except LOSSES as error:
        if client.status == "running":
            raise
        raise SchedulerLost(f"lost the scheduler at {address_of(client)}") from error


def check_connection(client: Client) -> None:
    """Refuse a client whose scheduler went away: tasks that are submitted to it would wait for ever.

    Parameters
    ----------
    client : distributed.Client
        Whose connection it is.

    Raises
    ------
    SchedulerLost
        With the address of the scheduler.
    """
    if client.status in ("closing", "closed"):
        raise SchedulerLost(f"lost the scheduler at {address_of(client)}")


def cancel(client: Client, futures: list[Any]) -> None:
    """Cancel tasks of a run that has failed, and release their futures.

    The traceback of the error may keep futures alive for long. A client asks its scheduler for all futures that it has
    not released whenever it looks for a published one, and the scheduler warns about those that were cancelled.

    Parameters
    ----------
    client : distributed.Client
        Who has submitted the tasks.
    futures : list of distributed.Future
        Of the tasks.
    """
    client.cancel(futures, force=True)
    for future in futures:
        future.release()


def ask(client: Client, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Call a function on each worker that is there now.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    function : callable
        Runs outside of tasks, in the worker's event loop.
    *arguments : object
        Of the function.

    Returns
    -------
    dict
        What it returns, by the address of the worker. A worker that goes away meanwhile is left out.

    Raises
    ------
    Exception
        What the function raises on a worker, with the worker's address as a note.
    """
    answers = client.run(function, *arguments, on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, Exception) and not is_loss_of_worker(answer):
            answer.add_note(f"on worker {worker}")
            raise answer
    return {worker: answer for worker, answer in answers.items() if not isinstance(answer, Exception)}


def is_loss_of_worker(answer: Any) -> bool:
    """Whether an answer of ``Client.run(..., on_error="return")`` says that the worker could not be reached.

    Parameters
    ----------
    answer : object
        What the function has returned or raised.

    Returns
    -------
    bool
        True for errors of the connection. A plain OSError is one that took too long; errors of files are subclasses.
    """
    return isinstance(answer, CommClosedError | TimeoutError | ConnectionError) or type(answer) is OSError


def wait_for_workers(client: Client, timeout: float) -> dict[str, Any]:
    """Wait for the first worker, with a task in the queue so that a cluster that scales with its load grows.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    timeout : float
        Seconds.

    Returns
    -------
    dict
        Facts of the workers by address, as `workers_of`, without those that are leaving.

    Raises
    ------
    TimeoutError
        When no worker comes in time.
    """
    workers = _at_work(client)
    if workers:
        return workers
    logger.warning("waiting for workers: the cluster has none yet (up to %.0f s)", timeout)
    end = time.monotonic() + timeout
    # Clusters that follow their load start workers for tasks alone. A built-in needs no package on a worker.
    call = client.submit(int, key=f"{_CALL}-{uuid.uuid4().hex[:8]}", pure=False)
    try:
        while not workers:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"the cluster at {address_of(client)} has 0 workers after {timeout:.0f} s; "
                    "start some, or raise worker_timeout"
                )
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=left)
            workers = _at_work(client)  # one that has come may have gone again
    finally:
        call.release()
    return workers


def _at_work(client: Client) -> dict[str, Any]:
    """The workers that take tasks or will take some again."""
    return {name: worker for name, worker in workers_of(client).items() if worker.get("status") not in _LEAVING}


def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler knows of each worker.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.

    Returns
    -------
    dict
        Facts of the workers by address: "status", "nthreads", "memory_limit" and others.

    Raises
    ------
    CommClosedError
        When the connection broke just now: the client then knows nothing.
    """
    known = client.scheduler_info(n_workers=-1)
    if "workers" not in known:
        raise CommClosedError("the scheduler does not answer")
    return dict(known["workers"])


def address_of(client: Client) -> str:
    """Address of the scheduler.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.

    Returns
    -------
    str
        Empty where it is not known.
    """
    return str(client.scheduler.address) if client.scheduler is not None else ""


def shares_process(client: Client, workers: dict[str, Any]) -> bool:
    """Whether the scheduler and all workers live in this process.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    workers : dict
        The workers by address.

    Returns
    -------
    bool
        By their addresses.
    """
    return address_of(client).startswith("inproc") and all(a.startswith("inproc") for a in workers)
