"""Processes for decoding: one interpreter keeps one core busy with small images. Imports the standard library."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager


@contextmanager
def process_pool(n_processes: int, prepare: Callable[[], None]) -> Iterator[Executor]:
    """Start processes that end with this one, however it ends.

    Parameters
    ----------
    n_processes : int
        How many.
    prepare : callable
        Called first in each of them; a function at the top level of a module.

    Yields
    ------
    Executor
        The processes; they are ended when the context is left.

    Raises
    ------
    ChildProcessError
        If one was killed, most often because memory ran out.
    """
    try:
        with ProcessPoolExecutor(n_processes, initializer=_begin, initargs=(os.getpid(), prepare)) as pool:
            yield pool
    except BrokenProcessPool as error:
        raise ChildProcessError("a decoding process was killed; the same call resumes where this one ended") from error


def _begin(parent: int, prepare: Callable[[], None]) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    prepare()


def _end_with(parent: int) -> None:
    """End this process soon after its parent: it would wait forever for work from a parent that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
