"""Schedulers, workers and drivers as processes of their own, each killed by its number and waited for."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Driver:
    """The driver process; its lines arrive in a queue, so that waiting for one can end."""

    def __init__(self, address: str, store: str, run: str, **environment: str) -> None:
        command = [sys.executable, "-m", "tests.chaos.driver", address, store, run]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._queue.put(line.rstrip())
        self._queue.put(None)

    def wait_for(self, word: str, timeout: float) -> str | None:
        """The next line that begins with `word`; None when the process ends without one.

        Raises
        ------
        TimeoutError
            With everything the driver said.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no {word!r} within {timeout} s; the driver said {self.lines}") from None
            if line is None:
                return None
            self.lines.append(line)
            if line.startswith(word):
                return line

    def kill(self) -> None:
        """``kill -9``, and wait for the end."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def dask_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``dask ARGUMENTS`` until the block ends, whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(30)


@contextmanager
def cluster(port: int, n_workers: int) -> Iterator[list[subprocess.Popen[str]]]:
    """A scheduler on a port of this machine and workers without nannies: [scheduler, worker, ...]."""
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show")
    worker = ("worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    limits = ("--memory-limit", "2GiB", "--death-timeout", "60")
    with ExitStack() as stack:
        yield [
            stack.enter_context(dask_process(*scheduler)),
            *(stack.enter_context(dask_process(*worker, *limits)) for _ in range(n_workers)),
        ]
