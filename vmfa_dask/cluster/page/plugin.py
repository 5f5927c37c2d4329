"""The scheduler's part of the page: it collects what drivers announce, and serves the page and the metrics.

Nothing in it may disturb a run: what goes wrong is logged once and left at that. May import: cluster, distributed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from vmfa_dask.cluster.page.collector import Collector
from vmfa_dask.cluster.page.topics import HANDLER, PAGE_TOPIC, TOPIC

logger = logging.getLogger(__name__)

NAME = "vmfa-dask-page"


class PagePlugin(SchedulerPlugin):
    """Collects runs, and serves ``/vmfa`` and ``/vmfa/metrics`` beside the pages of Dask's dashboard.

    Attributes
    ----------
    collector : Collector
        The runs.
    """

    name, idempotent = NAME, True

    def __init__(self) -> None:
        self.collector = Collector()
        self._scheduler: Scheduler | None = None
        self._unregister: Callable[[], None] | None = None
        self._failed = False

    async def start(self, scheduler: Scheduler) -> None:
        """Serve the page, and take what was announced before.

        Parameters
        ----------
        scheduler : distributed.Scheduler
            Which is running.
        """
        self._scheduler = scheduler
        with self._quietly():
            for moment, event in scheduler.get_events(TOPIC):
                self.collector.take(TOPIC, event, moment)
            # Not events of Dask, of which it would keep a thousand, with pictures.
            scheduler.handlers[HANDLER] = self.take_page_event
        with self._quietly():
            from vmfa_dask.cluster.page.serving import serve

            self._unregister = serve(scheduler, self.collector)

    async def close(self) -> None:
        """Take the metrics away from those of the process."""
        with self._quietly():
            if self._unregister is not None:
                self._unregister()

    def log_event(self, topic: str, msg: Any) -> None:
        """Take an event.

        Parameters
        ----------
        topic : str
            Of the event.
        msg : object
            The event.
        """
        if topic == TOPIC:
            with self._quietly():
                self.collector.take(topic, msg, time())

    def take_page_event(self, event: dict[str, Any]) -> None:
        """Take what a driver tells the page alone.

        Parameters
        ----------
        event : dict
            As `Announcer` sends it.
        """
        with self._quietly():
            self.collector.take(PAGE_TOPIC, event, time())

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Note when and where a task of a run was computed.

        Parameters
        ----------
        key : object
            Of any task.
        start, finish : str
            States of the task.
        *args, **kwargs
            Among them `worker` and `startstops`.
        """
        if start != "processing" or finish != "memory" or type(key) is not tuple:
            return
        parts = str(key[0]).rsplit("-", 2)  # as DaskExecutor.submit makes them
        if len(parts) == 3 and parts[1] in self.collector.runs:
            with self._quietly():
                worker = self._name_of(kwargs["worker"])
                self.collector.take_task(parts[0], parts[1], worker, kwargs.get("startstops") or ())

    def _name_of(self, address: str) -> str:
        """Name of a worker, without the protocol where it has only its address."""
        state = self._scheduler.workers.get(address) if self._scheduler is not None else None
        return str(getattr(state, "name", address)).rpartition("//")[-1]

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End the runs of a driver whose client went away.

        Parameters
        ----------
        scheduler : distributed.Scheduler
            Of the client.
        client : str
            Identity of the client.
        """
        with self._quietly():
            self.collector.lose_client(client)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            if not self._failed:
                logger.warning("the page of runs (/vmfa) is incomplete", exc_info=True)
            self._failed = True
