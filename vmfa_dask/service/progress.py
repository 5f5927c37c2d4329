"""How a fit shows what it does: a line that is rewritten in place in a terminal or notebook, or a line for each pass.

Everything goes to the standard error stream. Loggers and their handlers are left alone: the line is removed before the
fit logs a pass, and written again after it. May import: run, service.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from vmfa_dask.run.observer import Observer
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import WARM_UP, RunState
from vmfa_dask.service.options import Options
from vmfa_dask.service.progress_texts import RECENT, fitting, most_seconds_left, position, rounded, summary

_KERNELS = "preparing kernels (compiled once per machine) ..."
# Between two changes of the line while a pass is in progress.
_LEAST_SECONDS = 0.1
_COLUMNS = 100


@contextmanager
def display_of(options: Options) -> Iterator[Observer]:
    """Show how a fit goes during the enclosed lines; they end with a clean line, however they end.

    Parameters
    ----------
    options : Options
        Of the fit: `verbose`, and whether the user has a `progress` function.

    Yields
    ------
    Observer
        To be told what the fit does.
    """
    observer = observer_for(options.verbose, options.progress is not None)
    try:
        yield observer
    finally:
        observer.close()


def show_dashboard(client: Any, observer: Observer) -> None:
    """Show where the dashboard of a cluster is, as Dask's `distributed.dashboard.link` says.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    observer : Observer
        Shows it.
    """
    if isinstance(observer, _Display):
        try:
            link = client.dashboard_link
        except (KeyError, AttributeError):  # the scheduler has none
            return
        if link:
            observer.note(f"dashboard: {link}")


def observer_for(verbose: int | None, has_function: bool) -> Observer:
    """Choose the display that suits the standard error stream.

    Parameters
    ----------
    verbose : int or None
        As `fit_distributed` takes it.
    has_function : bool
        Whether the user has a `progress` function.

    Returns
    -------
    Observer
        Its `close` leaves a clean line.
    """
    stream = sys.stderr
    if verbose == 0 or stream is None:
        return Observer()
    live = rewrites_lines(stream)
    if verbose is None:
        # Threads of a service, and tasks of workers that share a terminal, would write across each other.
        alone = not has_function and threading.current_thread() is threading.main_thread()
        return LiveLine(stream) if live and alone else Observer()
    return LiveLine(stream) if live else PassLines(stream)


def shows(observer: Observer) -> bool:
    """Whether an observer shows anything to a person.

    Parameters
    ----------
    observer : Observer
        From `observer_for`.

    Returns
    -------
    bool
    """
    return isinstance(observer, _Display)


def rewrites_lines(stream: TextIO) -> bool:
    """Whether a stream is shown where a line can be written again: by a terminal, or by Jupyter.

    Parameters
    ----------
    stream : file
        Such as ``sys.stderr``.

    Returns
    -------
    bool
    """
    return _is_terminal(stream) or _is_notebook(stream)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no file, or a closed one
        return False


def _is_notebook(stream: TextIO) -> bool:
    return type(stream).__module__.startswith("ipykernel")


class _Display(Observer):
    """What both displays share: a stream, which may break without ending the fit."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._stream = None

    def note(self, text: str) -> None:
        """A line that stays; see `Observer.note`."""
        self._write(f"{text}\n")


class PassLines(_Display):
    """One line for each pass.

    Parameters
    ----------
    stream : file
        Where to write.
    """

    def pass_ends(self, state: RunState) -> None:
        """Write the record as the log has it; see `Observer.pass_ends`."""
        self.note(state.records[-1].line())


class LiveLine(_Display):
    """One line that is rewritten while the fit works, and one that stays for each phase.

    Parameters
    ----------
    stream : file
        A terminal, or the stream of a notebook.
    """

    watches_tasks = True

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        # The cursor waits at the begin of the line, so that what others write replaces it; notebooks would clear it.
        self._end = "" if _is_notebook(stream) else "\r"
        self._length = 0
        self._drawn_at = -math.inf
        self._kernels = False
        self._work, self._n_done, self._n_groups = "", 0, 0
        self._pass: tuple[RunState, Settings] | None = None
        self._recent: list[float] = []

    def kernels_begin(self) -> None:
        """Say so; see `Observer.kernels_begin`."""
        self._kernels = True
        self._draw(at_once=True)

    def start_begins(self, n_groups: int) -> None:
        """Show the groups of each step; see `Observer.start_begins`."""
        self._begin("", n_groups)

    def pass_begins(self, state: RunState, settings: Settings, n_groups: int) -> None:
        """Show its number and what the pass before has brought; see `Observer.pass_begins`."""
        self._pass = state, settings
        self._begin(state.phase, n_groups)

    def task_done(self, name: str) -> None:
        """Count groups; a task of another name begins another round; see `Observer.task_done`."""
        self._kernels = False
        if self._pass is None:
            if name != self._work or self._n_done == self._n_groups:
                self._work, self._n_done = name, 0
        elif name != "e-step":
            return
        self._n_done = min(self._n_done + 1, self._n_groups)
        self._draw()

    def pass_ends(self, state: RunState) -> None:
        """Remove the line; a phase that is complete leaves one; see `Observer.pass_ends`."""
        record = state.records[-1]
        self._recent = [*self._recent, record.seconds][-RECENT:]
        self._clear()
        if state.phase != record.phase:
            self.note(summary(state, record))

    def note(self, text: str) -> None:
        """A line that stays, above the one that changes; see `Observer.note`."""
        self._clear()
        super().note(text)

    def close(self) -> None:
        """Leave a clean line; see `Observer.close`."""
        self._clear()

    def _begin(self, work: str, n_groups: int) -> None:
        self._work, self._n_done, self._n_groups = work, 0, n_groups
        self._draw(at_once=not self._length)

    def _draw(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._drawn_at >= _LEAST_SECONDS:
            self._drawn_at = now
            self._replace(fitting(self._parts(), self._columns()))

    def _parts(self) -> list[str]:
        """What there is to say, the most important first."""
        if self._kernels:
            return [_KERNELS]
        groups = f"{self._n_done}/{self._n_groups} groups"
        if self._pass is None:
            task = self._work.removeprefix("seed-")
            return [f"seeding: {task}", groups] if task else ["seeding"]
        state, settings = self._pass
        parts = [position(state, settings), groups]
        if state.records:
            record = state.records[-1]
            if state.passes and not math.isnan(record.change):
                tol = settings.warmup_tol if state.phase == WARM_UP else settings.tol
                parts.append(f"gain {record.change:.1e} (tol {tol:.0e})")
            if self._recent:
                left = most_seconds_left(state, settings, self._recent, self._n_done / self._n_groups)
                parts.append(f"at most {rounded(left)} left")
            parts.append(f"free energy {record.free_energy:.4f}")
            held_out = [each.validation for each in state.records if each.validation is not None]
            if held_out:
                parts.append(f"held-out rows {held_out[-1]:.4f}")
        return parts

    def _columns(self) -> int:
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns if self._stream else 0
        except (OSError, ValueError, AttributeError):  # a notebook has no size
            columns = 0
        return columns - 1 if columns > 1 else _COLUMNS

    def _clear(self) -> None:
        if self._length:
            self._write(f"\r{' ' * self._length}\r")
            self._length = 0

    def _replace(self, text: str) -> None:
        self._write(f"\r{text.ljust(self._length)}{self._end}")
        self._length = len(text)
