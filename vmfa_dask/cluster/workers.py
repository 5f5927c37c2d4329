"""The workers of a cluster: waiting for the first ones, and telling which ones came and went during a run.

May import: distributed.
"""

from __future__ import annotations

import logging
from typing import Any

from distributed import Client, TimeoutError

logger = logging.getLogger(__name__)


class WorkerWatch:
    """Logs workers that were lost or have come since the last look.

    Parameters
    ----------
    client : of the cluster
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = set(workers_of(client))

    def look(self) -> None:
        """Compare the workers that are there now with those of the last look."""
        now = set(workers_of(self._client))
        for address in sorted(self._known - now):
            logger.warning("lost worker %s; its tasks run again elsewhere", address)
        for address in sorted(now - self._known):
            logger.info("worker %s has come", address)
        self._known = now


def wait_for_workers(client: Client, timeout: float) -> dict[str, Any]:
    """Workers of the cluster; waits for the first one.

    Raises
    ------
    TimeoutError
        When no worker comes within `timeout` seconds.
    """
    workers = workers_of(client)
    if not workers:
        logger.warning("waiting for workers: the cluster has none yet (up to %.0f s)", timeout)
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError as error:
            raise TimeoutError(
                f"the cluster at {address_of(client)} has 0 workers after {timeout:.0f} s; "
                "start some, or raise worker_timeout"
            ) from error
        workers = workers_of(client)
    return workers


def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler knows of each worker, by address."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])


def address_of(client: Client) -> str:
    """Address of the scheduler; empty where it is not known."""
    return str(client.scheduler.address) if client.scheduler is not None else ""


def shares_process(client: Client, workers: dict[str, Any]) -> bool:
    """Whether scheduler and all workers live in this process."""
    return address_of(client).startswith("inproc") and all(a.startswith("inproc") for a in workers)
