"""Workers that come and go during a run. May import: run, cluster, distributed."""

from __future__ import annotations

import logging
from contextlib import suppress

from distributed import Client

from vmfa_dask.cluster.conditions import check_processors
from vmfa_dask.cluster.package_versions import check_versions
from vmfa_dask.cluster.workers import LOSSES, naming_a_lost_scheduler, workers_of
from vmfa_dask.run.executor import SchedulerLost

logger = logging.getLogger(__name__)


class WorkerWatch:
    """Logs workers that were lost or have come since the last look, and checks those that have come.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = set(workers_of(client))

    def look(self) -> None:
        """Compare the present workers with those of the last look.

        Raises
        ------
        SchedulerLost
            When the connection to the scheduler is gone.
        RuntimeError
            When a new worker cannot work with the others: the table of `check_versions` or `check_processors`.
        """
        try:
            with naming_a_lost_scheduler(self._client):
                now = set(workers_of(self._client))
        except LOSSES as error:
            if isinstance(error, SchedulerLost):
                raise
            logger.debug("the scheduler does not tell its workers: %s", error)
            return
        for address in sorted(self._known - now):
            logger.warning("lost worker %s; its tasks run again elsewhere", address)
        for address in sorted(now - self._known):
            logger.info("worker %s has come", address)
        come, self._known = now - self._known, now
        if come:
            self._check(warn=True)

    def explain(self, error: Exception) -> None:
        """Raise a better error when a task may have failed because of its worker.

        A worker with another version of this package may not even be able to unpickle a task.

        Parameters
        ----------
        error : Exception
            What the task has raised.

        Raises
        ------
        RuntimeError
            As `look`, from `error`.
        """
        try:
            self._check(warn=False)
        except RuntimeError as cause:
            raise cause from error

    def _check(self, warn: bool) -> None:
        with suppress(*LOSSES):  # the caller's next step finds a loss
            check_versions(self._client, warn)
            check_processors(self._client, warn)


