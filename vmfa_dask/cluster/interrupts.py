"""Ctrl-C goes to all processes that were started from a terminal: during a run, workers leave it to the driver.

May import: store, cluster, distributed.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client

from vmfa_dask.cluster.workers import LOSSES, address_of
from vmfa_dask.store.exchange import running_kernel

logger = logging.getLogger(__name__)

# In a worker process: runs whose driver answers to Ctrl-C, and the handler before the first of them.
_runs: set[str] = set()
_handler_before: list[Any] = []


@contextmanager
def left_to_the_driver(client: Client) -> Iterator[None]:
    """Let Ctrl-C end the fit and nothing else: the present workers ignore it during the enclosed lines.

    Workers that were started from this terminal, such as those of a `LocalCluster`, would die of it, each with some
    dozen lines of traceback. They still close with their cluster.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    """
    here = threading.current_thread() is threading.main_thread()  # no other thread is interrupted
    if not here or _terminal() is None or address_of(client).startswith("inproc"):
        yield
        return
    run = uuid.uuid4().hex
    _tell(client, _ignore, run, _terminal())
    try:
        yield
    finally:
        _tell(client, _answer, run)


def _tell(client: Client, function: Any, *arguments: Any) -> None:
    if client.status != "running":
        return
    try:  # a worker that fails here takes no part in the fit, or is refused
        client.run(function, *arguments, on_error="ignore")
    except LOSSES as error:  # the next task finds a loss of the scheduler
        logger.debug("workers could not be told about Ctrl-C: %s", error)


def _terminal() -> tuple[str | None, int] | None:
    """Machine and process group, to whose processes Ctrl-C goes; None where a system has no groups."""
    return (running_kernel(), os.getpgrp()) if hasattr(os, "getpgrp") else None


def _ignore(run: str, terminal: tuple[str | None, int] | None) -> None:
    """In a worker: ignore Ctrl-C from now on. Workers take such calls in their main thread."""
    if terminal is None or terminal != _terminal() or threading.current_thread() is not threading.main_thread():
        return
    if not _runs:
        _handler_before[:] = [signal.signal(signal.SIGINT, signal.SIG_IGN)]
    _runs.add(run)


def _answer(run: str) -> None:
    """In a worker: restore the handler of Ctrl-C once no run is left."""
    if run in _runs:
        _runs.remove(run)
        if not _runs and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            signal.signal(signal.SIGINT, _handler_before.pop())
