"""The tasks of a run on the workers of a `distributed.Client`.

May import: run, cluster, distributed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from distributed import CancelledError, Client, Future, as_completed
from distributed.comm.core import CommClosedError

from vmfa_dask.cluster.leases import take_lease
from vmfa_dask.cluster.page.announcer import Announcer
from vmfa_dask.cluster.page.topics import TOPIC
from vmfa_dask.cluster.pauses import PauseWatch
from vmfa_dask.cluster.worker_context import RunReference, run_task
from vmfa_dask.cluster.worker_watch import WorkerWatch
from vmfa_dask.cluster.workers import cancel, check_connection, naming_a_lost_scheduler
from vmfa_dask.run.executor import SchedulerLost
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState
from vmfa_dask.run.storage import Storage

# By how much a task comes after the one before it: less than one for any number of tasks.
_LATER = 2.0**-40


class DaskExecutor:
    """An `Executor` that submits each task under a key of its own; no task is pinned to a worker.

    Worker processes keep their part of the run until `end`, or until the client has gone.

    Parameters
    ----------
    client : distributed.Client
        The user's client; it is never closed here.
    reference : RunReference
        The run.
    storage : Storage
        The run's versions as the driver sees them.
    observer : Observer, optional
        Told of tasks that are done.
    announcer : Announcer, optional
        Tells the page of runs on the dashboard what records do not.

    Attributes
    ----------
    plan : Plan
        Of the run.
    settings : Settings
        Of the run.
    shares_memory : bool
        Whether the workers live in this process.
    """

    def __init__(
        self,
        client: Client,
        reference: RunReference,
        storage: Storage,
        observer: Observer | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._client, self._reference, self.storage, self._announcer = client, reference, storage, announcer
        self._observer = observer or Observer()
        self._watched: dict[Any, str] = {}
        self._sequence = itertools.count()
        self._depths: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.plan: Plan = reference.plan
        self.settings: Settings = reference.settings
        self.shares_memory = reference.folder is None
        self._watch, self._pauses = WorkerWatch(client), PauseWatch(client)
        self._lease = None if self.shares_memory else take_lease(client, reference.run)

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit one task.

        Parameters
        ----------
        name : str
            What the task does; the dashboard groups and labels by it.
        index : int
            Row group or component block that it serves.
        function : callable
            Takes the context of the run, then `arguments`.
        *arguments : object
            Values, or futures of other tasks in place of them.

        Returns
        -------
        distributed.Future
            Of what the function returns.

        Raises
        ------
        SchedulerLost
            When the connection to the scheduler broke.
        """
        check_connection(self._client)
        # A key that was used before would silently return the old result, so keys count up and carry the run.
        number = next(self._sequence)
        key = (f"{name}-{self._reference.run}-{number:06d}", index)
        # Tasks that take results go before those that make new ones, so that few results wait. Of the latter the first
        # ones go first: Dask would begin with the last of the tasks that are submitted within 0.1 s, and reductions
        # would wait for the others.
        depth = 1 + max((self._depths[a] for a in arguments if isinstance(a, Future)), default=-1)
        task = (run_task, self._reference, function, *arguments)
        future = self._client.submit(*task, key=key, pure=False, priority=depth - number * _LATER)
        self._depths[future] = depth
        if self._observer.watches_tasks and depth == 0:
            self._watched[future] = name
        return future

    def results(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for tasks; when one fails or the user interrupts, the others of the pass are cancelled.

        Parameters
        ----------
        handles : sequence of distributed.Future
            Of the tasks.

        Returns
        -------
        list
            What the tasks have returned, in their order.

        Raises
        ------
        SchedulerLost
            When the connection to the scheduler broke.
        RuntimeError
            When a task failed on a worker that cannot work with the others.
        Exception
            What a task has raised.
        """
        watched, self._watched = self._watched, {}
        try:
            with naming_a_lost_scheduler(self._client), self._pauses:
                # Not `gather` alone: when it is interrupted or a task fails it leaves its callbacks behind, and the end
                # of the other tasks then fills the log.
                for future in as_completed({*handles, *watched}, loop=self._client.loop):
                    # Taken out at once: a result that is held here takes the memory of its worker.
                    name = watched.pop(future, None)
                    if future.status != "finished":
                        self._client.gather([future])  # raises
                    elif name is not None:
                        self._observer.task_done(name)
                return list(self._client.gather(list(handles)))
        except (CancelledError, SchedulerLost):
            raise
        except BaseException as error:
            # All futures that are alive, not only these: the traceback of the error keeps the frames of others alive.
            cancel(self._client, list(self._depths))
            if isinstance(error, Exception):
                self._watch.explain(error)
            raise

    def announce(self, values: dict[str, Any]) -> None:
        """Publish an event of the run for the dashboard and other clients; log workers that came and went.

        Parameters
        ----------
        values : dict
            Plain values, such as those of a record.

        Raises
        ------
        SchedulerLost
            When the connection to the scheduler broke.
        RuntimeError
            When a worker that has come cannot work with the others.
        """
        self._watch.look()
        with naming_a_lost_scheduler(self._client), suppress(CommClosedError):  # the next task finds a loss, too
            extra = self._announcer.extra() if self._announcer is not None else {}
            self._client.log_event(TOPIC, {"run": self._reference.run, **values, **extra})
        if self._announcer is not None:
            self._announcer.show_components()

    def note_state(self, state: RunState) -> None:
        """Note where the run stands, for the page of runs.

        Parameters
        ----------
        state : RunState
            After a pass.
        """
        if self._announcer is not None:
            self._announcer.note_state(state)

    def end(self) -> None:
        """Release the run: worker processes drop their part of it."""
        if self._lease is not None:
            self._lease.release()
