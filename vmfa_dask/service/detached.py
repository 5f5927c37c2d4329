"""Runs whose driver is a task of the cluster, so that the client may leave and come back.

The folder of a run is enough to find it again. When the driver's worker dies, another worker resumes the run.
May import: run, store, cluster, service.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from vmfa_dask.cluster.clients import Connection, connect
from vmfa_dask.cluster.drivers import drop_driver, find_driver, is_at_work, result_of
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.checkpoints import state_from
from vmfa_dask.service.progress import observer_for, shows
from vmfa_dask.service.training import Fit
from vmfa_dask.service.watching import Watch
from vmfa_dask.store.places import locate
from vmfa_dask.store.run_inspection import read_state, request_stop


class DetachedRun:
    """A run whose driver works on the cluster; `fit_distributed` and `attach` return it.

    Parameters
    ----------
    run : str
        Folder or URL of the run.
    future : distributed.Future
        Of the driver.
    connection : Connection
        To the cluster; a client that was opened for it is closed when the run is forgotten.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import zarr
    >>> from dask.distributed import Client
    >>> from vmfa_dask import attach, fit_distributed
    >>> client = Client(processes=False, dashboard_address="127.0.0.1:0")
    >>> with client, tempfile.TemporaryDirectory() as folder:
    ...     rows = np.random.default_rng(0).normal(size=(200, 4))
    ...     _ = zarr.create_array(f"{folder}/rows.zarr", data=rows)
    ...     detached = fit_distributed(
    ...         f"{folder}/rows.zarr", n_components=2, n_factors=1, client=client, run=f"{folder}/run", detach=True
    ...     )
    ...     fit = attach(f"{folder}/run", client).result(timeout=60)
    >>> fit.model.n_components
    2
    """

    def __init__(self, run: str, future: Any, connection: Connection) -> None:
        self.run, self.future, self._connection = run, future, connection
        self._fit: Fit | None = None
        self._forgotten = False

    def __repr__(self) -> str:
        return f"DetachedRun({self.run!r}, {self.status})"

    @property
    def status(self) -> str:
        """State of the driver.

        "pending" (waiting or running), "finished", "error", "cancelled", "lost" (the scheduler went away) or
        "forgotten".
        """
        if self._fit is not None:
            return "finished"
        return "forgotten" if self._forgotten else str(self.future.status)

    def records(self) -> tuple[IterationRecord, ...]:
        """Records of the passes that the run's folder keeps by now.

        Returns
        -------
        tuple of IterationRecord
            Empty before the first pass was kept.

        Raises
        ------
        ValueError
            When the folder is damaged.
        """
        values = read_state(self.run)
        return state_from(self.run, values).records if values else ()

    def stop(self) -> None:
        """Ask the driver to stop after the current pass.

        `result` then raises `RunStopped`, and the run can be resumed.

        Raises
        ------
        OSError
            When the run's folder cannot be written.
        """
        request_stop(self.run)

    def watch(self, timeout: float | None = None) -> Iterator[IterationRecord]:
        """Wait for each pass of the run, until it ends in whatever way; `result` then says how.

        Leaving the loop leaves the run alone.

        Parameters
        ----------
        timeout : float, optional
            Seconds until the end of the run; by default it waits as long as it takes.

        Yields
        ------
        IterationRecord
            Of each pass as soon as it is complete, those that were made before first.

        Raises
        ------
        TimeoutError
            When the run has not ended by then; it continues.
        ValueError
            When the folder is damaged.
        """
        return self._followed(Observer(), timeout)

    def _followed(self, observer: Observer, timeout: float | None) -> Iterator[IterationRecord]:
        return Watch(self._connection.client, self.run, observer).follow(lambda: self.status != "pending", timeout)

    def result(self, timeout: float | None = None, verbose: int | None = None) -> Fit:
        """Wait for the end of the run. The cluster forgets the result then; this object keeps it.

        Parameters
        ----------
        timeout : float, optional
            Seconds; by default it waits as long as it takes.
        verbose : int, optional
            What is shown meanwhile, as by `fit_distributed`: by default how the run goes, in the main thread of a
            terminal or a Jupyter notebook; 0 is silent, and 1 prints a line per pass elsewhere.

        Returns
        -------
        Fit
            What `fit_distributed` returns without `detach`.

        Raises
        ------
        TimeoutError
            When the run has not ended by then; it continues.
        RunStopped
            When `stop` ended it.
        RuntimeError
            When the run was forgotten.
        Exception
            What else has ended the run.
        """
        if self._fit is None:
            if self._forgotten:
                raise RuntimeError(f"{self.run}: this run was forgotten; {_how_to_go_on(self.run)}")
            end = None if timeout is None else time.monotonic() + timeout
            self._show(verbose, timeout)
            left = None if end is None else max(0.0, end - time.monotonic())
            fit: Fit = result_of(self._connection.client, self.future, left)
            self._fit = fit
            self._drop()
        return self._fit

    def _show(self, verbose: int | None, timeout: float | None) -> None:
        """Show the run until it has ended, where anything is to be shown."""
        observer = observer_for(verbose, has_function=False)
        if shows(observer) and self.status == "pending":
            try:
                for _ in self._followed(observer, timeout):
                    pass
            finally:
                observer.close()

    def forget(self) -> None:
        """Let the cluster forget the driver and its result; the run's folder stays.

        Raises
        ------
        RuntimeError
            While the driver is running.
        """
        if self._forgotten:
            return
        if is_at_work(self._connection.client, self.future):
            raise RuntimeError(f"{self.run}: its driver is at work; stop() ends it after the current pass")
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
    run : str or path
        Its folder or URL.
    client : distributed.Client, str or cluster, optional
        A client of the same cluster, the address of its scheduler, or the cluster; by default the current client.

    Returns
    -------
    DetachedRun
        Its latest driver.

    Raises
    ------
    TypeError, ValueError, OSError
        When `client` is none of these, or no scheduler answers there.
    KeyError
        When the cluster knows no driver of this run; the message says how to resume it.

    Examples
    --------
    See `DetachedRun`.
    """
    path = locate(run)
    connection = connect(client)
    future = find_driver(connection.client, path)
    if future is None:
        connection.end()
        raise KeyError(f"the cluster knows no driver of {path}; {_how_to_go_on(path)}, or returns the model of its end")
    return DetachedRun(path, future, connection)
