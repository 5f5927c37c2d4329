"""What the scheduler keeps of runs: plain data, made of the events that drivers announce. Standard library alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vmfa_dask.cluster.page.columns import Columns
from vmfa_dask.cluster.page.topics import PAGE_TOPIC, TOPIC

MOST_RUNS = 8
PHASES = ("warm-up", "training", "final")
PART, WORKER = "part:", "worker:"
# Workers beyond these are shown as one, by their mean.
_MOST_WORKERS = 32
_OTHERS = "other workers, mean"
# Spells of work per worker between two records that are kept: a pass has some tasks per worker.
_MOST_SPELLS = 4096
_TASKS_OF_PASSES = ("e-step", "reduce", "m-step", "neighbors")  # as run.passes submits them
_NUMBERS = (
    "free_energy",
    "validation",
    "change",
    "joints_per_row",
    "rows_per_second",
    "seconds",
    "n_alive",
    "checkpoint_age",
)
RUNNING = "running"


@dataclass
class RunHistory:
    """What is known of one run.

    Parameters
    ----------
    run : str
        Name of the run on its cluster.
    begun : float
        Seconds since the epoch.
    facts : dict
        Of the driver's first event: label, sizes, settings.
    columns : Columns
        Numbers by pass.
    state : str
        "running", or how the run ended.
    reason : str
        The message of the error that has ended it.
    latest : float
        When the last event came, in seconds since the epoch.
    n_passes, n_dropped, n_split : int
        Passes so far, and components that were dropped and split in them.
    phase : str
        Of the last pass.
    pictures : dict or None
        The last event with pictures.
    """

    run: str
    begun: float
    facts: dict[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    state: str = RUNNING
    reason: str = ""
    latest: float = math.nan
    n_passes: int = 0
    n_dropped: int = 0
    n_split: int = 0
    phase: str = ""
    pictures: dict[str, Any] | None = None
    _spells: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What users call the run: the last part of its folder or of its data."""
        return str(self.facts.get("label") or self.run)

    def checkpoint_age(self, now: float) -> float:
        """Seconds since the run was kept last.

        Parameters
        ----------
        now : float
            Seconds since the epoch.

        Returns
        -------
        float
            NaN where it is not kept.
        """
        since = now - self.latest if self.state == RUNNING else 0.0
        return self.columns.last("checkpoint_age") + since

    def add_spell(self, worker: str, start: float, stop: float) -> None:
        """Note that a worker was busy with a task of the run.

        Parameters
        ----------
        worker : str
            Its name.
        start, stop : float
            Seconds since the epoch.
        """
        spells = self._spells.setdefault(worker, [])
        if len(spells) < _MOST_SPELLS:
            spells.append((start, stop))

    def add_record(self, values: Mapping[str, Any], time: float) -> None:
        """Note a pass.

        Parameters
        ----------
        values : mapping
            Fields of the record.
        time : float
            When it came, in seconds since the epoch.
        """
        self.n_passes += 1
        self.n_dropped += len(values.get("dropped", ()))
        self.n_split += len(values.get("split", ()))
        self.phase = str(values.get("phase", ""))
        seconds = _number(values.get("seconds"))
        row = {name: _number(values.get(name)) for name in _NUMBERS}
        row["pass"] = _number(values.get("iteration"))
        row["phase"] = PHASES.index(self.phase) if self.phase in PHASES else math.nan
        row["dropped"], row["split"] = self.n_dropped, self.n_split
        row["bytes_per_second"] = _number(values.get("bytes_read")) / seconds if seconds else math.nan
        parts = values.get("seconds_per_phase") or {}
        row.update({f"{PART}{name}": _number(value) for name, value in parts.items()})
        row.update(self._busy_seconds())
        self.columns.append(row)
        self.latest = time

    def _busy_seconds(self) -> dict[str, float]:
        """Seconds in which each worker was busy since the record before, by column."""
        spells, self._spells = self._spells, {}
        busy = {worker: _covered(parts) for worker, parts in sorted(spells.items())}
        seen = [name.removeprefix(WORKER) for name in self.columns.names() if name.startswith(WORKER)]
        named = [*seen, *(worker for worker in busy if worker not in seen)][:_MOST_WORKERS]
        row = {f"{WORKER}{worker}": busy.pop(worker, 0.0) for worker in named if worker != _OTHERS}
        if busy:
            row[f"{WORKER}{_OTHERS}"] = sum(busy.values()) / len(busy)
        return row


class Collector:
    """The last runs of a scheduler, by their names, in the order in which they began.

    Attributes
    ----------
    runs : dict of str to RunHistory
        `MOST_RUNS` at most; those that have ended give way first.
    """

    def __init__(self) -> None:
        self.runs: dict[str, RunHistory] = {}

    def take(self, topic: str, event: Mapping[str, Any], time: float) -> None:
        """Take an event.

        Parameters
        ----------
        topic : str
            Events of other topics than those of this package are left alone.
        event : mapping
            As drivers announce it.
        time : float
            When it came, in seconds since the epoch.
        """
        if topic not in (TOPIC, PAGE_TOPIC):
            return
        history = self._history(str(event["run"]), time)
        kind = "record" if topic == TOPIC else event["kind"]
        if kind == "record":
            history.add_record(event, time)
        elif kind == "begin":
            history.facts = dict(event)
        elif kind == "earlier":
            for record in event["records"]:
                history.add_record(record, time)
        elif kind == "pictures":
            history.pictures = dict(event)
        elif kind == "end":
            history.state, history.reason = str(event["state"]), str(event.get("reason", ""))
        history.latest = time

    def _history(self, run: str, time: float) -> RunHistory:
        if run not in self.runs:
            ended = [name for name, history in self.runs.items() if history.state != RUNNING]
            if len(self.runs) >= MOST_RUNS:
                del self.runs[next(iter(ended or self.runs))]
            self.runs[run] = RunHistory(run, time, latest=time)
        return self.runs[run]

    def take_task(self, name: str, run: str, worker: str, spells: Iterable[Mapping[str, Any]]) -> None:
        """Note when a worker computed a task.

        Parameters
        ----------
        name : str
            What the task does; those that find the start of a run are left out.
        run : str
            Name of a run; of others nothing is kept.
        worker : str
            Name of the worker.
        spells : iterable of mapping
            What the task did when, as workers of Dask tell it.
        """
        history = self.runs.get(run)
        if history is not None and name.startswith(_TASKS_OF_PASSES):
            for spell in spells:
                if spell["action"] == "compute":
                    history.add_spell(worker, spell["start"], spell["stop"])

    def lose_client(self, client: str) -> None:
        """End the runs of a driver that went away without a word.

        Parameters
        ----------
        client : str
            Identity of its client.
        """
        for history in self.runs.values():
            if history.facts.get("client") == client and history.state == RUNNING:
                history.state = "its driver went away"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _covered(spells: list[tuple[float, float]]) -> float:
    """Seconds in which at least one of the spells lasted."""
    total, end = 0.0, -math.inf
    for start, stop in sorted(spells):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
