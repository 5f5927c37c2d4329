"""Drivers that are tasks of the cluster, published under the path of their run so that any client finds them.

When the worker of a driver dies, the scheduler starts the driver elsewhere. May import: cluster, distributed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from distributed import Client, Worker, get_worker

from vmfa_dask.cluster.clients import ConnectedClient, thread_of_task_left

_PREFIX = "driver-"
_driven: ContextVar[bool] = ContextVar("driven", default=False)
_result_stays: ContextVar[bool] = ContextVar("result_stays", default=True)


def is_driver(key: Any) -> bool:
    """Whether a task is a driver: it works in a thread beside those of the worker's other tasks.

    Parameters
    ----------
    key : object
        Key of a task of Dask.

    Returns
    -------
    bool
        By the form of the key.
    """
    return isinstance(key, str) and key.startswith(_PREFIX)


def drives_here() -> bool:
    """Whether the calling code is a driver that `start_driver` has sent to the cluster.

    Returns
    -------
    bool
    """
    return _driven.get()


@contextmanager
def results_in_folders_alone() -> Iterator[None]:
    """Let drivers that are started in the enclosed lines leave no result on the cluster.

    Who holds a handle of such a driver when it ends gets its result all the same. A driver that fails stays known, with
    its error.

    Yields
    ------
    None
    """
    token = _result_stays.set(False)
    try:
        yield
    finally:
        _result_stays.reset(token)


def _dataset_of(run: str) -> str:
    return f"vmfa-dask:{run}"


def start_driver(client: Client, run: str, function: Callable[..., Any], data: str, options: dict[str, Any]) -> Any:
    """Start ``function(data, client=..., **options)`` on some worker, and publish it for other clients.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Path or URL of the run.
    function : callable
        The fit.
    data : str
        Path or URL of the rows.
    options : dict
        Keywords of the call, small enough to travel with a task.

    Returns
    -------
    distributed.Future
        Of what the function returns.

    Raises
    ------
    RuntimeError
        When a driver of this run is at work on the cluster already.
    """
    last = find_driver(client, run)
    if last is not None:
        if last.status == "pending":
            raise RuntimeError(f"{run}: a driver is at work on this run; attach(run) finds it")
        client.unpublish_dataset(_dataset_of(run))
    leaves = None if _result_stays.get() else run
    key = f"{_PREFIX}{os.urandom(4).hex()}"
    future = client.submit(_drive, function, data, options, leaves, key=key, pure=False)
    client.publish_dataset(future, name=_dataset_of(run))
    return future


def find_driver(client: Client, run: str) -> Any:
    """Find the last driver of a run.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Path or URL of the run.

    Returns
    -------
    distributed.Future or None
        None where the cluster knows none.
    """
    return client.get_dataset(_dataset_of(run), default=None)


def result_of(client: Client, future: Any, timeout: float | None) -> Any:
    """Wait for a driver and fetch its result from the worker that holds it, past the scheduler where that is possible.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    future : distributed.Future
        Of the driver.
    timeout : float or None
        Seconds; None waits as long as it takes.

    Returns
    -------
    object
        What the driver has returned.

    Raises
    ------
    TimeoutError
        When the driver has not ended in time.
    Exception
        What the driver has raised.
    """
    try:
        future.exception(timeout=timeout)
    except TimeoutError as error:
        raise TimeoutError(f"the driver has not ended within {timeout} s; the run goes on") from error
    if future.status != "finished":
        return future.result()  # raises
    return client.gather(future, direct=True)


def is_at_work(client: Client, future: Any) -> bool:
    """Whether a worker has begun a driver that has not ended.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    future : distributed.Future
        Of the driver.

    Returns
    -------
    bool
        False where the scheduler went away.
    """
    if future.status != "pending":
        return False
    states = client.sync(client.scheduler.get_task_status, keys=[future.key]) if client.scheduler else {}
    return bool(states.get(future.key) == "processing")


def drop_driver(client: Client, run: str, future: Any) -> None:
    """Let the cluster forget a driver and its result.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Path or URL of the run.
    future : distributed.Future
        Of the driver; a later driver of the same run stays.
    """
    last = find_driver(client, run)
    if last is not None and last.key == future.key:
        client.unpublish_dataset(_dataset_of(run))
    future.release()


def _drive(function: Callable[..., Any], data: str, options: dict[str, Any], leaves: str | None) -> Any:
    """The driver, in a thread that leaves its slot to other tasks; `leaves` is a run that leaves no result here."""
    worker = get_worker()
    # Not `worker_client`: Dask would make its client the current one of the process, and leave it open.
    client = ConnectedClient(
        worker.scheduler.address,
        loop=worker.loop,
        security=worker.security,
        direct_to_workers=True,
        set_as_default=False,
        name="driver",
    )
    worker.loop.add_callback(_close_with, worker, weakref.ref(client))
    token = _driven.set(True)
    try:
        with client, thread_of_task_left():
            result = function(data, client=client, **options)
            last = find_driver(client, leaves) if leaves is not None else None
            if leaves is not None and last is not None and last.key == worker.get_current_task():
                client.unpublish_dataset(_dataset_of(leaves))
            return result
    finally:
        _driven.reset(token)


async def _close_with(worker: Worker, reference: weakref.ref[Client]) -> None:
    """Close the client of a driver when its worker ends: it would look for the scheduler for half a minute."""
    await worker.finished()
    client = reference()
    if client is not None and client.status != "closed":
        await client.close()
