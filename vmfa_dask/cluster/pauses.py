"""Workers that Dask has paused take no tasks, and a fit on them would wait in silence: a warning says so.

May import: cluster, distributed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from distributed import CancelledError, Client, TimeoutError

from vmfa_dask.cluster.workers import workers_of

logger = logging.getLogger(__name__)

# Dask also pauses workers for moments while they write results to disk: only those that two looks find count.
SECONDS_BETWEEN_LOOKS = 5.0
_MOST_NAMES = 5


class PauseWatch:
    """Looks at the workers while the enclosed lines wait for results; warns once of those that stay paused.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    """

    def __init__(self, client: Client) -> None:
        self._client, self._warned = client, False
        self._done = threading.Event()

    def __enter__(self) -> None:
        self._done = threading.Event()
        if not self._warned:
            threading.Thread(target=self._look, args=(self._done,), name="vmfa-pauses", daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()

    def _look(self, done: threading.Event) -> None:
        before: set[str] = set()
        while not done.wait(SECONDS_BETWEEN_LOOKS):
            try:
                workers = workers_of(self._client)
            except (OSError, TimeoutError, CancelledError):  # the lines that wait find a lost scheduler themselves
                continue
            paused = {name for name, worker in workers.items() if worker.get("status") == "paused"}
            if paused & before and not done.is_set():
                self._warned = True
                logger.warning("%s", describe_pause({name: workers[name] for name in paused & before}, len(workers)))
                return
            before = paused


def describe_pause(paused: Mapping[str, Mapping[str, Any]], n_workers: int) -> str:
    """Say which workers are paused, what they hold, and what to do.

    Parameters
    ----------
    paused : mapping of str to mapping
        Facts of the paused workers by address, as `workers.workers_of` gives them.
    n_workers : int
        All workers of the cluster.

    Returns
    -------
    str
        One sentence, and advice.
    """
    listed = []
    for name, worker in sorted(paused.items())[:_MOST_NAMES]:
        held, limit = worker.get("metrics", {}).get("memory"), worker.get("memory_limit")
        sizes = f"{held / 2**20:.0f} MiB in use" if held else "memory in use unknown"
        listed.append(f"{name} ({sizes}, limit {limit / 2**20:.0f} MiB)" if limit else f"{name} ({sizes})")
    more = f" and {len(paused) - _MOST_NAMES} more" if len(paused) > _MOST_NAMES else ""
    consequence = "the fit waits until one goes on" if len(paused) == n_workers else "their tasks wait"
    return (
        f"{len(paused)} of {n_workers} workers are paused, as their memory is near its limit, and take no tasks; "
        f"{consequence}: {', '.join(listed)}{more}. Free what else their processes hold (results of other work; "
        "in a cluster within this process its own arrays), restart them, or give them more memory (memory_limit)"
    )
