"""The Dask executor: the tasks of a run on a `distributed.Client`'s workers.

May import: values, em, store, distributed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from distributed import CancelledError, Client, Future, as_completed
from distributed.comm.core import CommClosedError

from vmfa_dask.cluster.context import RunReference, run_task
from vmfa_dask.cluster.leases import take_lease
from vmfa_dask.cluster.pauses import PauseWatch
from vmfa_dask.cluster.watch import WorkerWatch
from vmfa_dask.cluster.workers import check_connection, naming_a_lost_scheduler
from vmfa_dask.run.executor import SchedulerLost
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Storage

TOPIC = "vmfa-dask"
# By how much a task comes after the one before it: less than one for any number of tasks.
_LATER = 2.0**-40


class DaskExecutor:
    """Submits tasks with keys of their own; nothing is pinned to a worker, and only handles that are needed are held.

    Worker processes keep what they have of the run until `end`, or until the client has gone.

    Parameters
    ----------
    client : the user's client; it is never closed here
    reference : the run
    storage : the run's versions as the driver sees them
    """

    def __init__(self, client: Client, reference: RunReference, storage: Storage) -> None:
        self._client, self._reference, self.storage = client, reference, storage
        self._sequence = itertools.count()
        self._depths: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.plan: Plan = reference.plan
        self.settings: Settings = reference.settings
        self.shares_memory = reference.folder is None
        self._watch, self._pauses = WorkerWatch(client), PauseWatch(client)
        self._lease = None if self.shares_memory else take_lease(client, reference.run)

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future. Its key starts with `name`, which is what the dashboard groups and labels by."""
        check_connection(self._client)
        # A key that was used before would silently return the old result, so keys count up and carry the run.
        number = next(self._sequence)
        key = (f"{name}-{self._reference.run}-{number:06d}", index)
        # What takes results goes before what makes new ones, so that few of them wait. Of the latter the first ones go
        # first: Dask takes tasks that are submitted within 0.1 s from the last one on, and the reduces wait for others.
        depth = 1 + max((self._depths[a] for a in arguments if isinstance(a, Future)), default=-1)
        task = (run_task, self._reference, function, *arguments)
        future = self._client.submit(*task, key=key, pure=False, priority=depth - number * _LATER)
        self._depths[future] = depth
        return future

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """Gather; when a task fails or the user interrupts, the rest of the pass is cancelled and the error raised.

        Raises
        ------
        SchedulerLost
            When the connection to the scheduler broke.
        """
        try:
            with naming_a_lost_scheduler(self._client), self._pauses:
                # Not `gather` alone: what it waits with is left behind when it is interrupted or one task fails, and
                # the end of the other tasks then fills the log.
                for future in as_completed(handles, loop=self._client.loop):
                    if future.status != "finished":
                        self._client.gather([future])  # raises
                return list(self._client.gather(list(handles)))
        except (CancelledError, SchedulerLost):
            raise
        except BaseException as error:
            # All that is alive, not these handles alone: the error's traceback holds the frames that hold the others.
            self._client.cancel(list(self._depths), force=True)
            if isinstance(error, Exception):
                self._watch.explain(error)
            raise

    def announce(self, values: dict[str, Any]) -> None:
        """Publish plain values as an event of the run, for the dashboard and other clients; log who came and went."""
        self._watch.look()
        with naming_a_lost_scheduler(self._client), suppress(CommClosedError):  # the next task finds a loss, too
            self._client.log_event(TOPIC, {"run": self._reference.run, **values})

    def end(self) -> None:
        """Give up the run: the worker processes drop what they have of it."""
        if self._lease is not None:
            self._lease.release()
