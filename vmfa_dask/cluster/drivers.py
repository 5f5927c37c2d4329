"""Drivers that are tasks of the cluster: published under the path of their run, so that any client finds them.

When the worker of a driver dies, the scheduler starts the driver elsewhere. May import: distributed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from distributed import Client, worker_client

_PREFIX = "driver-"


def is_driver(key: Any) -> bool:
    """Whether a key of Dask is that of a driver: it works in a thread beside those of the worker's other tasks."""
    return isinstance(key, str) and key.startswith(_PREFIX)


def _published(run: str) -> str:
    return f"vmfa-dask:{run}"


def start_driver(client: Client, run: str, function: Callable[..., Any], data: str, options: dict[str, Any]) -> Any:
    """The future of ``function(data, client=..., **options)`` on some worker, published for other clients.

    Raises
    ------
    RuntimeError
        When a driver of this run is at work on the cluster already.
    """
    known = find_driver(client, run)
    if known is not None:
        if known.status == "pending":
            raise RuntimeError(f"{run}: a driver is at work on this run; attach(run) finds it")
        client.unpublish_dataset(_published(run))
    future = client.submit(_drive, function, data, options, key=f"{_PREFIX}{os.urandom(4).hex()}", pure=False)
    client.publish_dataset(future, name=_published(run))
    return future


def find_driver(client: Client, run: str) -> Any:
    """The future of the last driver of a run, or None."""
    return client.get_dataset(_published(run), default=None)


def result_of(client: Client, future: Any, timeout: float | None) -> Any:
    """What a driver has returned, from the worker that holds it; the scheduler passes it on only where it must.

    Raises
    ------
    TimeoutError
        When the driver has not ended in time.
    """
    try:
        future.exception(timeout=timeout)
    except TimeoutError as error:
        raise TimeoutError(f"the driver has not ended within {timeout} s; the run goes on") from error
    if future.status != "finished":
        return future.result()  # raises
    return client.gather(future, direct=True)


def is_at_work(client: Client, future: Any) -> bool:
    """Whether a worker has taken up a driver that has not ended."""
    if future.status != "pending":
        return False
    found = client.sync(client.scheduler.get_task_status, keys=[future.key]) if client.scheduler else {}
    return bool(found.get(future.key) == "processing")


def drop_driver(client: Client, run: str, future: Any) -> None:
    """Let the cluster forget a driver and what it has returned; one that was started since then stays."""
    known = find_driver(client, run)
    if known is not None and known.key == future.key:
        client.unpublish_dataset(_published(run))
    future.release()


def _drive(function: Callable[..., Any], data: str, options: dict[str, Any]) -> Any:
    """The driver, in a thread that gives its place back to the worker."""
    with worker_client() as client:
        return function(data, client=client, **options)
