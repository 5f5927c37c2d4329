"""What a driver on the cluster tells the clients that watch its run, as events of Dask: in order, and never waited for.

May import: distributed.
"""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from distributed import Client, get_worker

logger = logging.getLogger(__name__)

_TOPIC = "vmfa-dask-driver"
# Dask has one handler per topic and client, and a client may watch several runs.
_receivers: weakref.WeakKeyDictionary[Client, list[Received]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class DriverEvents:
    """Sends the events of one driver from the worker that it works on; what goes wrong is logged once.

    Parameters
    ----------
    run : str
        Path or URL of the run.
    """

    def __init__(self, run: str) -> None:
        self._run, self._driver, self._n_sent, self._works = run, uuid.uuid4().hex[:8], 0, True

    def send(self, **values: Any) -> None:
        """Send an event.

        Parameters
        ----------
        **values : object
            Plain values.
        """
        if not self._works:
            return
        event = {"run": self._run, "driver": self._driver, "number": self._n_sent, **values}
        self._n_sent += 1
        try:
            get_worker().log_event(_TOPIC, event)
        except Exception:
            logger.info("%s: clients that watch this run hear no more of it", self._run, exc_info=True)
            self._works = False


class Received:
    """Events of the drivers of one run, each once and in order.

    Parameters
    ----------
    run : str
        Path or URL of the run.
    """

    def __init__(self, run: str) -> None:
        self._run, self._last = run, ("", -1)
        self._queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._earlier: list[dict[str, Any]] = []

    def put(self, event: dict[str, Any]) -> None:
        """Take an event of any run.

        Parameters
        ----------
        event : dict
            As `DriverEvents` sends it.
        """
        if event["run"] == self._run:
            self._queue.put(event)

    def put_earlier(self, events: Iterable[dict[str, Any]]) -> None:
        """Take what was told before; of several drivers of the run, what the last one has told.

        Parameters
        ----------
        events : iterable of dict
            Of any runs, in their order.
        """
        own = [event for event in events if event["run"] == self._run]
        self._earlier = [event for event in own if event["driver"] == own[-1]["driver"]]

    def next(self, timeout: float) -> dict[str, Any] | None:
        """Wait for the next event.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        dict or None
            None where none comes in time.
        """
        while True:
            if self._earlier:
                event = self._earlier.pop(0)
            else:
                try:
                    event = self._queue.get(timeout=timeout)
                except Empty:
                    return None
            driver, number = self._last
            if event["driver"] != driver or event["number"] > number:
                self._last = event["driver"], event["number"]
                return event


@contextmanager
def events_of_driver(client: Client, run: str) -> Iterator[Received]:
    """Receive what the latest driver of a run tells during the enclosed lines, after what it has told before.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Path or URL of the run.

    Yields
    ------
    Received
        Its `next` gives the events.

    Raises
    ------
    OSError
        When the scheduler went away.
    """
    received = Received(run)
    with _lock:
        receivers = _receivers.setdefault(client, [])
        receivers.append(received)
        if len(receivers) == 1:
            client.subscribe_topic(_TOPIC, partial(_hand_out, receivers))
    try:
        received.put_earlier(event for _, event in client.get_events(_TOPIC))  # after the subscription: none is missed
        yield received
    finally:
        with _lock:
            receivers.remove(received)
            if not receivers and client.status == "running":
                client.unsubscribe_topic(_TOPIC)


def _hand_out(receivers: Sequence[Received], stamped: tuple[float, dict[str, Any]]) -> None:
    for received in tuple(receivers):
        received.put(stamped[1])
