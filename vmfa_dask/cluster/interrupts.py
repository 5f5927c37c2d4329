"""Ctrl-C in a terminal goes to all processes that were started there: during a run, workers leave it to the driver.

May import: store, distributed.
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

# Of a worker process: runs whose driver answers to Ctrl-C, and what it did before the first one.
_runs: set[str] = set()
_before: list[Any] = []


@contextmanager
def left_to_the_driver(client: Client) -> Iterator[None]:
    """Let Ctrl-C end the fit and nothing else: workers that are there now ignore it in the enclosed lines.

    Those that were started from this terminal, as those of a `LocalCluster`, would die of it otherwise, each with
    some dozen lines. They close with their cluster as ever.
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
    try:  # a worker that cannot do so has no part in what follows, or is refused
        client.run(function, *arguments, on_error="ignore")
    except LOSSES as error:  # the next task finds a loss of the scheduler
        logger.debug("workers could not be told about Ctrl-C: %s", error)


def _terminal() -> tuple[str | None, int] | None:
    """Machine and group of this process: Ctrl-C goes to whoever has both; None where there are no groups."""
    return (running_kernel(), os.getpgrp()) if hasattr(os, "getpgrp") else None


def _ignore(run: str, terminal: tuple[str | None, int] | None) -> None:
    """In a worker: ignore Ctrl-C from now on. Workers take such calls in their main thread."""
    if terminal is None or terminal != _terminal() or threading.current_thread() is not threading.main_thread():
        return
    if not _runs:
        _before[:] = [signal.signal(signal.SIGINT, signal.SIG_IGN)]
    _runs.add(run)


def _answer(run: str) -> None:
    """In a worker: do what Ctrl-C did before, once no run is left."""
    if run in _runs:
        _runs.remove(run)
        if not _runs and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            signal.signal(signal.SIGINT, _before.pop())
