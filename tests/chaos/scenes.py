"""What is killed, and what must come of it: every run ends in the bytes of the undisturbed one."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import dask
from distributed import Client, LocalCluster

from tests.chaos.driver import digest, options
from tests.chaos.processes import Driver, cluster
from tests.clusters import local_cluster
from tests.ports import free_port
from vmfa_dask import IterationRecord, fit_distributed

# A driver starts, connects and loads its kernels in a few seconds; the bound is for a hang, not for speed.
PATIENCE_SECONDS = 180.0
MOST_KILLS_PER_FIT = 10
# What ends a process: the kernel that needs memory, and a batch system whose time is up.
ENDS = (signal.SIGKILL, signal.SIGTERM)
# A LocalCluster looks a while after the loss of a worker (15 s) whether there is a new one under its name, and gives
# the name up for good when that one has just been killed as well.
PATIENT_CLUSTER = {"distributed.deploy.lost-worker-timeout": "1h"}


@dataclass
class Outcome:
    """What happened in a scene."""

    name: str
    kills: int = 0
    fits: int = 0
    same: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every fit ended in the bytes of the undisturbed one."""
        return self.fits == self.same and not self.notes

    def count(self, found: str, expected: str) -> None:
        """Compare the model of a fit that has ended."""
        self.fits += 1
        self.same += found == expected


def quiet_cluster(n_workers: int) -> LocalCluster:
    """Worker processes whose losses fill no pages of the log.

    Dask gives a task up when four workers died while they ran it, as it may be what kills them. Here we do, and
    on a slow machine all kills of a fit can meet one task.
    """
    with dask.config.set({"distributed.scheduler.allowed-failures": MOST_KILLS_PER_FIT}):
        return local_cluster(n_workers, silence_logs=logging.CRITICAL)


def kill_workers(store: str, expected: str, rng: random.Random, n_fits: int, kills_per_fit: int) -> Outcome:
    """Workers of a cluster die at random moments of a fit, once all of them together; nannies start new ones."""
    outcome = Outcome("workers killed")
    with (
        dask.config.set(PATIENT_CLUSTER),
        quiet_cluster(3) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        for number in range(n_fits):
            workers.scale(3)  # a worker that is killed before it has come is given up by its nanny
            client.wait_for_workers(3, timeout=60)
            stop, killed = threading.Event(), [0]
            killer = threading.Thread(target=_kill_at_random, args=(workers, rng, kills_per_fit, number, stop, killed))
            # A fit goes on until all kills of its share have happened: later passes are as good as early ones.
            killer.start()
            try:
                fit = fit_distributed(store, client=client, progress=_slowly(killer), **options())
            finally:
                stop.set()
                killer.join(30)
            outcome.kills += killed[0]
            outcome.count(digest(fit.model), expected)
    return outcome


def _slowly(killer: threading.Thread) -> Callable[[IterationRecord], None]:
    """Wait between passes while kills are still to come, so that they are spread over the fit."""

    def progress(record: IterationRecord) -> None:
        if killer.is_alive():
            time.sleep(0.3)

    return progress


def _kill_at_random(
    workers: LocalCluster, rng: random.Random, n_kills: int, number: int, stop: threading.Event, killed: list[int]
) -> None:
    while killed[0] < n_kills and not stop.wait(rng.uniform(0.0, 1.2)):
        # A nanny is "running" while its new process starts, and gives up one that is killed before it has come.
        processes = [nanny.process for nanny in list(workers.workers.values()) if nanny.process is not None]
        alive = [process for process in processes if process.status.name == "running" and process.pid]
        together = len(alive) if number % 5 == 4 and killed[0] == 0 else 1
        for process in rng.sample(alive, min(together, len(alive), n_kills - killed[0])):
            try:
                os.kill(process.pid, rng.choice(ENDS))
            except (ProcessLookupError, TypeError):
                continue
            killed[0] += 1


def kill_drivers(
    store: str, expected: str, rng: random.Random, folder: Path, n_kills: int, kills_per_fit: int
) -> Outcome:
    """Drivers die at random moments; the next one goes on with the run."""
    outcome = Outcome("drivers killed")
    with quiet_cluster(2) as workers:
        while outcome.kills < n_kills:
            run = str(folder / f"driver-{outcome.fits}")
            for _ in range(min(kills_per_fit, n_kills - outcome.kills)):
                driver = Driver(workers.scheduler_address, store, run)
                driver.wait_for("ready", PATIENCE_SECONDS)
                time.sleep(rng.uniform(0.0, 1.5))
                _end(outcome, driver, rng.choice(ENDS))
            _finish(outcome, workers.scheduler_address, store, run, expected)
    return outcome


def _end(outcome: Outcome, driver: Driver, number: int) -> None:
    """End a driver: at once, or as a batch system does, after which it has left by itself."""
    try:
        driver.process.send_signal(number)
        status = driver.process.wait(PATIENCE_SECONDS)
        if number == signal.SIGTERM and status not in (128 + number, -number, 0):
            outcome.notes.append(f"a driver that got SIGTERM left with {status}")
        outcome.kills += 1
    finally:
        driver.kill()


def _finish(outcome: Outcome, address: str, store: str, run: str, expected: str) -> None:
    driver = Driver(address, store, run)
    try:
        line = driver.wait_for("done", PATIENCE_SECONDS)
        if line is None:
            outcome.notes.append(f"a driver ended without a model: {driver.lines[-5:]}")
        outcome.count((line or "done none").split()[1], expected)
    finally:
        driver.kill()


def kill_schedulers(
    store: str, expected: str, rng: random.Random, folder: Path, n_kills: int, **environment: str
) -> Outcome:
    """Schedulers die at random passes: the driver says so within a minute, and goes on with a new cluster."""
    outcome = Outcome("schedulers killed")
    for number in range(n_kills):
        run = str(folder / f"scheduler-{number}")
        port = free_port()
        with cluster(port, 2) as processes:
            driver = Driver(f"tcp://127.0.0.1:{port}", store, run, **environment)
            driver.wait_for(f"pass {rng.randrange(8)}", PATIENCE_SECONDS)
            time.sleep(rng.uniform(0.0, 0.2))
            processes[0].kill()
            outcome.kills += 1
            begin = time.monotonic()
            line = driver.wait_for("lost", 60.0)
            if line is None or run not in line:
                outcome.notes.append(f"after {time.monotonic() - begin:.0f} s: {driver.lines[-5:]}")
            driver.kill()
        port = free_port()
        with cluster(port, 2):
            _finish(outcome, f"tcp://127.0.0.1:{port}", store, run, expected)
    return outcome


def kill_everything(store: str, expected: str, folder: Path) -> Outcome:
    """Driver, scheduler and two workers die together; one worker ends the run."""
    outcome, run, port = Outcome("everything killed, one worker afterwards"), str(folder / "everything"), free_port()
    with cluster(port, 2) as processes:
        driver = Driver(f"tcp://127.0.0.1:{port}", store, run)
        driver.wait_for("pass 5", PATIENCE_SECONDS)
        for process in (driver.process, *processes):
            process.kill()
            outcome.kills += 1
        driver.kill()
    port = free_port()
    with cluster(port, 1):
        _finish(outcome, f"tcp://127.0.0.1:{port}", store, run, expected)
    return outcome
