"""Scheduler and workers as processes of this machine, on loopback, which end with this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from deploy.local.layout import Layout, WorkerPlan
from vmfa_dask.cluster.clients import ConnectedClient

DASK_SETTINGS = Path(__file__).parents[1] / "dask.yaml"
"""Settings of Dask for scheduler and workers."""

_SECONDS_TO_START = 60.0
_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN_LOOKS = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ClusterFailed(RuntimeError):
    """The cluster did not start, or one of its processes ended by itself."""


def run(layout: Layout, port: int, dashboard_port: int, local_directory: str | None = None) -> None:
    """Start a cluster, print its address, and end it at Ctrl-C or SIGTERM.

    Parameters
    ----------
    layout : Layout
        Its workers.
    port, dashboard_port : int
        Of the scheduler and its dashboard, on loopback; 0 takes free ones.
    local_directory : str, optional
        Folder for files of Dask.

    Raises
    ------
    ClusterFailed
        When a process ends by itself, or the workers do not come within a minute. All others have ended then as well.
    """
    with _asked_to_end() as asked, tempfile.TemporaryDirectory(prefix="vmfa-local-") as folder:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            address_file = Path(folder, "scheduler.json")
            processes["scheduler"] = _started(
                f"scheduler --host 127.0.0.1 --port {port} --dashboard-address 127.0.0.1:{dashboard_port}".split(),
                address_file,
            )
            _wait(address_file.exists, processes, asked, "the scheduler does not answer")
            for worker in layout.workers:
                processes[f"worker of node {worker.node}"] = _started_worker(
                    worker, address_file, local_directory or folder
                )
            if not asked():
                _announce(address_file, len(layout.workers), processes, asked)
            while not asked():
                _check(processes)
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            _end(list(processes.values()))


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], bool]]:
    """Whether a signal has asked for the end; what the signals did before is restored."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _started_worker(worker: WorkerPlan, address_file: Path, folder: str) -> subprocess.Popen[bytes]:
    command = (
        f"worker --host 127.0.0.1 --no-dashboard --dashboard-address 127.0.0.1:0 --name node-{worker.node} "
        f"--nworkers 1 --nthreads {worker.threads} --memory-limit {worker.memory_limit} "
        f"--death-timeout {_SECONDS_TO_START:.0f}"
    )
    return _started([*command.split(), "--local-directory", folder], address_file, worker.cores)


def _started(command: Sequence[str], address_file: Path, cores: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A command of Dask in a process group of its own, so that Ctrl-C in a terminal reaches only this process."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)  # a process inherits the mask of the one that starts it
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command, "--scheduler-file", str(address_file)],
            env={"DASK_CONFIG": str(DASK_SETTINGS), **os.environ},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, before)


def _announce(
    address_file: Path, n_workers: int, processes: dict[str, subprocess.Popen[bytes]], asked: Callable[[], bool]
) -> None:
    """Wait for the workers and print where the cluster is."""
    options = {"scheduler_file": str(address_file), "set_as_default": False, "timeout": _SECONDS_TO_START}
    with ConnectedClient(**options) as client:

        def complete() -> bool:
            return len(client.scheduler_info(n_workers=-1)["workers"]) == n_workers

        if _wait(complete, processes, asked, f"fewer than {n_workers} workers have come"):
            print(f"scheduler: {client.scheduler.address}", flush=True)
            print(f"dashboard: {client.dashboard_link}", flush=True)


def _wait(
    condition: Callable[[], bool], processes: dict[str, subprocess.Popen[bytes]], asked: Callable[[], bool], late: str
) -> bool:
    """Wait until a condition holds (True) or the end is asked for (False)."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while not asked():
        if condition():
            return True
        _check(processes)
        if time.monotonic() > deadline:
            raise ClusterFailed(f"{late} after {_SECONDS_TO_START:.0f} s")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return False


def _check(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise ClusterFailed(f"the {name} ended with status {process.returncode}; its messages are above")


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End workers, then the scheduler, and what is left of their groups."""
    for process in reversed(processes):
        process.terminate()
    deadline = time.monotonic() + _SECONDS_TO_END
    for process in reversed(processes):
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also processes of a nanny that has gone before them
        process.wait()
