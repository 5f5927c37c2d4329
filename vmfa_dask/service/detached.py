"""Runs whose driver is a task of the cluster, so that the client may leave and come back.

All that the client needs to find a run again is its folder. When the driver's worker dies, another one goes on with the
run. May import: em, store, cluster, service.
"""

from __future__ import annotations

import os
from typing import Any

from vmfa_dask.cluster.clients import Connection, connect
from vmfa_dask.cluster.drivers import drop_driver, find_driver, is_at_work, result_of
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.checkpoints import state_from
from vmfa_dask.service.training import Fit
from vmfa_dask.store.places import locate
from vmfa_dask.store.run_inspection import read_state, request_stop


class DetachedRun:
    """A run whose driver works on the cluster.

    Parameters
    ----------
    run : folder or URL of the run
    future : of the driver
    connection : to the cluster; a client that was opened for it is closed when the run is forgotten
    """

    def __init__(self, run: str, future: Any, connection: Connection) -> None:
        self.run, self.future, self._connection = run, future, connection
        self._fit: Fit | None = None
        self._forgotten = False

    def __repr__(self) -> str:
        return f"DetachedRun({self.run!r}, {self.status})"

    @property
    def status(self) -> str:
        """What the driver does or did.

        "pending" (waiting or working), "finished", "error", "cancelled", "lost" (the scheduler went away) or
        "forgotten".
        """
        if self._fit is not None:
            return "finished"
        return "forgotten" if self._forgotten else str(self.future.status)

    def records(self) -> tuple[IterationRecord, ...]:
        """Records of the passes that the run's folder keeps by now."""
        values = read_state(self.run)
        return state_from(self.run, values).records if values else ()

    def stop(self) -> None:
        """Ask the driver to stop after the pass in work; `result` then raises `RunStopped`, and the run can go on."""
        request_stop(self.run)

    def result(self, timeout: float | None = None) -> Fit:
        """Wait for the end and return what `fit_distributed` returns.

        The cluster forgets it then; this object keeps it.

        Parameters
        ----------
        timeout : seconds; None waits as long as it takes

        Raises
        ------
        TimeoutError
            When the run has not ended by then; it goes on.
        RunStopped
            When `stop` ended it.
        RuntimeError
            When the run was forgotten.
        """
        if self._fit is None:
            if self._forgotten:
                raise RuntimeError(f"{self.run}: this run was forgotten; {_how_to_go_on(self.run)}")
            fit: Fit = result_of(self._connection.client, self.future, timeout)
            self._fit = fit
            self._drop()
        return self._fit

    def forget(self) -> None:
        """Let the cluster forget the driver and what it has returned; the run's folder stays.

        Raises
        ------
        RuntimeError
            When the driver is at work.
        """
        if self._forgotten:
            return
        if is_at_work(self._connection.client, self.future):
            raise RuntimeError(f"{self.run}: its driver is at work; stop() ends it after the pass in work")
        self._drop()

    def _drop(self) -> None:
        drop_driver(self._connection.client, self.run, self.future)
        self._forgotten = True
        self._connection.end()


def _how_to_go_on(path: str) -> str:
    return f"fit_distributed(..., run={path!r}) goes on with the run"


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
        raise KeyError(f"the cluster knows no driver of {path}; {_how_to_go_on(path)}, or returns the model of its end")
    return DetachedRun(path, future, connection)
