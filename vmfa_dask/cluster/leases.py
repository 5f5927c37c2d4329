"""How worker processes learn that the driver of a run has gone: its lease is no longer known to the scheduler.

A lease is a small task whose result the client of the driver wants. However the client ends, killed included, the
scheduler forgets the lease. Worker processes ask for the leases of the runs they hold, and drop those without one. So
it does not matter which worker has come late, was retired, or has written its results to disk.

May import: distributed, tornado (its event loop).
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, Worker
from tornado.ioloop import PeriodicCallback

logger = logging.getLogger(__name__)

# A process without a run does not ask; with one, it is a message of some hundred bytes.
SECONDS_BETWEEN_LOOKS = 5.0
_PREFIX = "vmfa-run-"
_WATCH = "vmfa-dask-leases"


def take_lease(client: Client, run: str) -> Any:
    """The future that keeps a run in the worker processes for as long as somebody holds it."""
    return client.submit(int, key=_lease(run), pure=False, priority=1)


def _lease(run: str) -> str:
    return f"{_PREFIX}{run}"


def is_lease(key: Any) -> bool:
    """Whether a key of Dask is that of a lease: its result is a number."""
    return isinstance(key, str) and key.startswith(_PREFIX)


def watch_leases(worker: Worker, runs: Callable[[], Sequence[str]], forget: Callable[[str], None]) -> None:
    """Let a worker look from time to time whether the leases of its runs hold; once per worker, from any thread.

    Parameters
    ----------
    worker : who asks, until it closes
    runs : gives the runs that its process holds now
    forget : called with each run whose driver has gone
    """
    if _WATCH in worker.periodic_callbacks:
        return

    dropped = False

    async def look() -> None:
        nonlocal dropped
        if dropped:  # a task that was at work then has ended by now, most likely
            gc.collect()
            dropped = False
        held = {_lease(run): run for run in runs()}
        if not held:
            return
        try:
            found = await worker.scheduler.get_task_status(keys=list(held))
        except OSError as error:  # a worker that stays without scheduler closes by itself
            logger.debug("the scheduler does not tell its leases: %s", error)
            return
        for lease in [lease for lease, state in found.items() if state is None]:
            logger.info("the driver of run %s has gone; what is kept for it is dropped", held[lease])
            forget(held[lease])
            dropped = True

    watch = PeriodicCallback(look, 1000 * SECONDS_BETWEEN_LOOKS)
    worker.periodic_callbacks[_WATCH] = watch  # the worker stops it when it closes
    worker.loop.add_callback(watch.start)
