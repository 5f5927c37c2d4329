"""How worker processes learn that the driver of a run has gone: its lease is no longer known to the scheduler.

A lease is a small task whose result the driver's client holds. However the client ends, even killed, the scheduler
forgets the lease. Worker processes ask for the leases of the runs they hold, and drop runs without one. So it does not
matter which worker has come late, was retired, or has written its results to disk.

May import: distributed, tornado.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, Worker
from tornado.ioloop import PeriodicCallback

logger = logging.getLogger(__name__)

# Only processes that hold a run ask, by a message of some hundred bytes.
SECONDS_BETWEEN_LOOKS = 5.0
_PREFIX = "vmfa-run-"
_WATCH = "vmfa-dask-leases"


def take_lease(client: Client, run: str) -> Any:
    """Take the lease of a run.

    Parameters
    ----------
    client : distributed.Client
        Of the driver.
    run : str
        Name of the run.

    Returns
    -------
    distributed.Future
        Worker processes keep the run for as long as the future is held.
    """
    return client.submit(int, key=_lease_of(run), pure=False, priority=1)


def _lease_of(run: str) -> str:
    return f"{_PREFIX}{run}"


def is_lease(key: Any) -> bool:
    """Whether a task is a lease: its result is a number.

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


def watch_leases(
    worker: Worker, runs: Callable[[], Sequence[str]], forget: Callable[[str], None], name: str = _WATCH
) -> None:
    """Let a worker ask from time to time whether the leases of its runs hold; may be called from any thread.

    A watch is started once for each worker and name.

    Parameters
    ----------
    worker : distributed.Worker
        Who asks, until it closes.
    runs : callable
        Gives the names of the runs that its process holds now.
    forget : callable
        Called with the name of each run whose driver has gone.
    name : str
        Of the watch: one for each kind of runs.
    """
    if name in worker.periodic_callbacks:
        return

    dropped = False

    async def look() -> None:
        nonlocal dropped
        if dropped:  # a task that was running then has ended by now, most likely
            gc.collect()
            dropped = False
        leases = {_lease_of(run): run for run in runs()}
        if not leases:
            return
        try:
            states = await worker.scheduler.get_task_status(keys=list(leases))
        except OSError as error:  # a worker that stays without scheduler closes by itself
            logger.debug("the scheduler does not tell its leases: %s", error)
            return
        for lease in [lease for lease, state in states.items() if state is None]:
            logger.info("the driver of run %s has gone; what is kept for it is dropped", leases[lease])
            forget(leases[lease])
            dropped = True

    watch = PeriodicCallback(look, 1000 * SECONDS_BETWEEN_LOOKS)
    worker.periodic_callbacks[name] = watch  # the worker stops it when it closes
    worker.loop.add_callback(watch.start)
