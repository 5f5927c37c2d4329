"""Detached runs that show how they go: what the driver tells, and the display of a client that listens.

May import: run, store, cluster, service.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from vmfa_dask.cluster.driver_events import DriverEvents, events_of_driver
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState
from vmfa_dask.service.checkpoints import settings_from, state_from
from vmfa_dask.store.run_inspection import read_state

# Between two events of a pass in progress.
_LEAST_SECONDS = 0.5
_POLL_SECONDS = 0.1
_E_STEP = "e-step"


@contextmanager
def told_to_clients(run: str) -> Iterator[Observer]:
    """Tell clients how the run of this driver goes during the enclosed lines.

    Parameters
    ----------
    run : str
        Path or URL of the run.

    Yields
    ------
    Observer
        To be told what the fit does.
    """
    yield _Teller(DriverEvents(run))


class _Teller(Observer):
    """Sends where the run stands; each event says all of it, apart from records of earlier passes."""

    watches_tasks = True

    def __init__(self, events: DriverEvents) -> None:
        self._events, self._sent_at = events, -math.inf
        self._facts: dict[str, Any] = {}
        self._work, self._n_done, self._n_groups = "", 0, 0

    def kernels_begin(self) -> None:
        self._events.send(kind="kernels")

    def start_begins(self, n_groups: int) -> None:
        self._begin({"kind": "start"}, "", n_groups)

    def pass_begins(self, state: RunState, settings: Settings, n_groups: int) -> None:
        self._begin({"kind": "pass", **_plain(state), "settings": dict(vars(settings))}, _E_STEP, n_groups)

    def task_done(self, name: str) -> None:
        if self._facts["kind"] == "pass":
            if name != _E_STEP:
                return
        elif name != self._work or self._n_done == self._n_groups:
            self._work, self._n_done = name, 0
        self._n_done = min(self._n_done + 1, self._n_groups)
        if time.monotonic() - self._sent_at >= _LEAST_SECONDS:
            self._send()

    def pass_ends(self, state: RunState) -> None:
        self._events.send(kind="end", record=state.records[-1].as_dict(), **_plain(state))

    def _begin(self, facts: dict[str, Any], work: str, n_groups: int) -> None:
        self._facts, self._work, self._n_done, self._n_groups = facts, work, 0, n_groups
        self._send()

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        self._events.send(**self._facts, work=self._work, n_done=self._n_done, n_groups=self._n_groups)


def _plain(state: RunState) -> dict[str, Any]:
    values = {name: value for name, value in vars(state).items() if name != "records"}
    return {**values, "n_records": len(state.records)}


class Watch:
    """Follows a run as its driver tells of it.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Path or URL of the run.
    observer : Observer
        Shows it.
    """

    def __init__(self, client: Any, run: str, observer: Observer) -> None:
        self._client, self._run, self._observer = client, run, observer
        self._records: dict[int, IterationRecord] = {}
        self._round: tuple[Any, ...] = ()
        self._n_done = 0

    def follow(self, has_ended: Callable[[], bool], timeout: float | None) -> Iterator[IterationRecord]:
        """Show the run until it has ended.

        Parameters
        ----------
        has_ended : callable
            Whether the driver has ended.
        timeout : float or None
            Seconds; None waits as long as it takes.

        Yields
        ------
        IterationRecord
            Of each pass, those that were made before first.

        Raises
        ------
        TimeoutError
            When the driver has not ended in time.
        ValueError
            When the folder of the run is damaged.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        yield from self._kept()
        with events_of_driver(self._client, self._run) as received:
            while True:
                ended = has_ended()  # before the look: what a driver told last comes before its end
                event = received.next(0.0 if ended else min(_POLL_SECONDS, max(0.0, end - time.monotonic())))
                if event is not None:
                    yield from self._show(event)
                elif ended:
                    break
                elif time.monotonic() >= end:
                    raise TimeoutError(f"{self._run}: the driver has not ended within {timeout} s; the run goes on")
        yield from self._kept()

    def _kept(self) -> Iterator[IterationRecord]:
        """Passes that the folder keeps, after those that are known."""
        values = read_state(self._run)
        if values is None:
            return
        state = state_from(self._run, values)
        phases = [*(record.phase for record in state.records[1:]), state.phase]
        for k, (record, phase) in enumerate(zip(state.records, phases, strict=False)):
            if record.iteration > max(self._records, default=-1):
                self._records[record.iteration] = record
                self._observer.pass_ends(replace(state, phase=phase, records=state.records[: k + 1]))
                yield record

    def _show(self, event: dict[str, Any]) -> Iterator[IterationRecord]:
        if event["kind"] == "kernels":
            self._observer.kernels_begin()
        elif event["kind"] == "end":
            yield from self._end_pass(event)
        else:
            self._show_work(event)

    def _end_pass(self, event: dict[str, Any]) -> Iterator[IterationRecord]:
        number = event["record"]["iteration"]
        record, known = IterationRecord.from_json(event["record"], number), self._records.get(number)
        # A driver that began elsewhere repeats passes; one that trains a finished run further replaces its last one.
        if known is None or (known.phase, known.free_energy) != (record.phase, record.free_energy):
            self._records = {k: each for k, each in self._records.items() if k < number}
            self._records[number] = record
            self._observer.pass_ends(self._state(event))
            yield record

    def _show_work(self, event: dict[str, Any]) -> None:
        which = (event["driver"], event["kind"], event.get("phase"), event.get("n_records"), event["work"])
        if which != self._round or event["n_done"] < self._n_done:
            self._round, self._n_done = which, 0
            if event["kind"] == "pass":
                self._observer.pass_begins(self._state(event), settings_from(event["settings"]), event["n_groups"])
            else:
                self._observer.start_begins(event["n_groups"])
        for _ in range(event["n_done"] - self._n_done):
            self._observer.task_done(event["work"])
        self._n_done = event["n_done"]

    def _state(self, event: dict[str, Any]) -> RunState:
        names = [field.name for field in fields(RunState) if field.name != "records"]
        records = tuple(record for _, record in sorted(self._records.items()))[: event["n_records"]]
        return RunState(**{name: event[name] for name in names}, records=records)
