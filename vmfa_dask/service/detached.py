"""Runs whose driver is a task of the cluster, so that the client may leave and come back.

All that the client needs to find a run again is its folder. When the driver's worker dies, another one goes on with the
run. May import: em, store, cluster, service.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from vmfa_dask.cluster.clients import connect
from vmfa_dask.cluster.drivers import find_driver
from vmfa_dask.em.records import IterationRecord
from vmfa_dask.service.checkpoints import state_from
from vmfa_dask.service.training import Fit
from vmfa_dask.store.places import locate
from vmfa_dask.store.runs import read_state, request_stop


@dataclass(frozen=True)
class DetachedRun:
    """A run whose driver works on the cluster.

    Parameters
    ----------
    run : folder or URL of the run
    future : of the driver
    """

    run: str
    future: Any

    @property
    def status(self) -> str:
        """ "pending" (waiting or working), "finished", "error", "cancelled" or "lost" (the scheduler went away)."""
        return str(self.future.status)

    def records(self) -> tuple[IterationRecord, ...]:
        """Records of the passes that the run's folder keeps by now."""
        values = read_state(self.run)
        return state_from(self.run, values).records if values else ()

    def stop(self) -> None:
        """Ask the driver to stop after the pass in work; `result` then raises `RunStopped`, and the run can go on."""
        request_stop(self.run)

    def result(self, timeout: float | None = None) -> Fit:
        """Wait for the end and return what `fit_distributed` returns.

        Parameters
        ----------
        timeout : seconds; None waits as long as it takes

        Raises
        ------
        TimeoutError
            When the run has not ended by then; it goes on.
        RunStopped
            When `stop` ended it.
        """
        fit: Fit = self.future.result(timeout=timeout)
        return fit


def attach(run: str | os.PathLike[str], client: Any = None) -> DetachedRun:
    """Find a run that was started with ``detach=True``.

    Parameters
    ----------
    run : its folder or URL
    client : `distributed.Client` of the same cluster, its address or the cluster; by default the current client

    Raises
    ------
    TypeError, ValueError, OSError
        When `client` is none of these, or no scheduler answers there.
    KeyError
        When the cluster knows no driver of this run; how to go on is named.
    """
    path = locate(run)
    connection = connect(client)
    future = find_driver(connection.client, path)
    if future is None:
        connection.end()
        raise KeyError(
            f"the cluster knows no driver of {path}; fit_distributed(..., run={path!r}) goes on with the run"
        )
    return DetachedRun(path, future)
