"""One run on the page: its figures, pictures and facts, brought up to date from its history.

May import: numpy, bokeh, cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, Div, GridBox

from vmfa_dask.cluster.page.collector import PART, PHASES, RUNNING, WORKER, RunHistory
from vmfa_dask.cluster.page.header import NOT_KEPT, WAITING, facts_html
from vmfa_dask.cluster.page.panel import Panel
from vmfa_dask.cluster.page.panels import Panels
from vmfa_dask.cluster.page.pictures import pictures_html
from vmfa_dask.cluster.page.points import points_of, stretch_of

# Line, column and width of each figure where a run has the page for itself.
_GRID = ((0, 0, 2), (0, 2, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1), (2, 0, 1), (2, 1, 1), (2, 2, 1))
_MOST_DOTS = 150
# Points of the last stretch of rows: its extremes, and the end.
_OF_LAST = 3
_PLAIN = (
    "pass",
    "free_energy",
    "joints_per_row",
    "rows_per_second",
    "seconds",
    "n_alive",
    "dropped",
    "split",
    "checkpoint_age",
)


class RunView:
    """A run as Bokeh shows it.

    Parameters
    ----------
    history : RunHistory
        The run.
    alone : bool
        Whether it has the width of the page: its figures then form a grid, else one column.

    Attributes
    ----------
    root : bokeh model
        What the page holds.
    passes, held_out : ColumnDataSource
        Numbers by pass, and held-out scores of the passes that have one.
    """

    def __init__(self, history: RunHistory, alone: bool) -> None:
        self._history = history
        self._layout = layout_of(history)
        self._generation, self._length, self._stretch = -1, 0, 0
        self._pictured: Any = None
        self.passes, self.held_out = ColumnDataSource(), ColumnDataSource({"pass": [], "validation": []})
        self._facts = Div(sizing_mode="stretch_width", margin=(0, 5, 4, 5))
        self._pictures = Div(sizing_mode="stretch_width", margin=(6, 5, 10, 5), visible=False)
        self._averaged: frozenset[str] = frozenset()
        self._shaded: dict[str, tuple[float, float | None]] = {}
        self._panels = self._make_panels() if len(history.columns) else []
        self.root = column(self._facts, self._arranged(alone), self._pictures, sizing_mode="stretch_width", spacing=4)
        self.update(history.latest)

    def _arranged(self, alone: bool) -> Any:
        """The figures as a grid of three columns, or one below the other."""
        if not self._panels:
            return Div(text=WAITING)
        cells = [panel.figure for panel in self._panels]
        if not _has(self._history, "checkpoint_age"):
            cells.append(Div(text=NOT_KEPT, sizing_mode="stretch_width"))
        places = _GRID if alone else [(line, 0, 1) for line in range(len(cells))]
        children = [(cell, line, place, 1, width) for cell, (line, place, width) in zip(cells, places, strict=True)]
        columns = "minmax(0, 1fr)"
        return GridBox(children=children, cols=columns, spacing=(6, 8), sizing_mode="stretch_width")

    def is_current(self) -> bool:
        """Whether the figures are those that the run needs now.

        Returns
        -------
        bool
            False once columns have come for which there is no line.
        """
        return self._layout == layout_of(self._history)

    def _make_panels(self) -> list[Panel]:
        columns, facts = self._history.columns, self._history.facts
        names = columns.names()
        self._averaged = frozenset(name for name in names if name.startswith((PART, WORKER)))
        self.passes.data = {name: [] for name in self._rows(0)}
        panels = Panels(self.passes, self.held_out)
        unit = "nats per feature" if facts.get("standardize", True) else "relative to the free energy"
        workers = [name for name in names if name.startswith(WORKER)]
        made = [
            panels.free_energy(_has(self._history, "validation")),
            panels.gain(unit),
            panels.parts([name for name in names if name.startswith(PART)]),
            panels.workers(workers),
            panels.rates(),
            panels.joints(),
            panels.components(int(facts.get("n_components", columns.last("n_alive")))),
        ]
        return [*made, panels.checkpoint()] if _has(self._history, "checkpoint_age") else made

    def update(self, now: float) -> None:
        """Bring figures, pictures and facts up to date.

        Parameters
        ----------
        now : float
            Seconds since the epoch.
        """
        history = self._history
        text = facts_html(history, now)
        if self._facts.text != text:
            self._facts.text = text
        if self._panels and (self._generation, self._length) != (history.columns.generation, len(history.columns)):
            self._update_passes()
        if history.pictures is not None and self._pictured is not history.pictures:
            self._pictured = history.pictures
            title = f"Heaviest components after pass {history.pictures['iteration']}: mean, number, weight"
            style = "font-size:13px;font-weight:bold;color:#222;margin:4px 0 8px"
            self._pictures.text = f'<div style="{style}">{title}</div>{pictures_html(history.pictures)}'
            self._pictures.visible = True

    def _update_passes(self) -> None:
        columns = self._history.columns
        length, stretch = len(columns), stretch_of(len(columns))
        if self._generation == columns.generation and self._stretch == stretch:  # rows have come, nothing else
            self._extend(stretch)
        else:
            self.passes.data = points_of(self._rows(0), stretch, self._averaged)
        if _has(self._history, "validation"):
            self._update_held_out()
        self._generation, self._length, self._stretch = columns.generation, length, stretch
        for panel in self._panels:
            for dots in panel.dots:
                dots.visible = length <= _MOST_DOTS
        self._shade()

    def _extend(self, stretch: int) -> None:
        """Send the points that have come, and again those of the last stretch, which has grown or has been the end."""
        begin = (self._length - 1) // stretch * stretch if stretch > 1 else self._length
        points, n_drawn = points_of(self._rows(begin), stretch, self._averaged), len(self.passes.data["pass"])
        if stretch > 1:
            again = slice(n_drawn - _OF_LAST, n_drawn)
            # The first of these points is an end of the whole alone.
            points = {name: column[1:] for name, column in points.items()}
            self.passes.patch({name: [(again, column[:_OF_LAST])] for name, column in points.items()})
            points = {name: column[_OF_LAST:] for name, column in points.items()}
        if len(points["pass"]):
            self.passes.stream(points)

    def _update_held_out(self) -> None:
        scores, numbers = (np.array(self._history.columns.column(name)) for name in ("validation", "pass"))
        known = np.isfinite(scores)
        rows = {"pass": numbers[known], "validation": scores[known]}
        points = points_of(rows, stretch_of(len(rows["pass"])), frozenset())
        n_drawn = len(self.held_out.data["pass"])
        if n_drawn and np.array_equal(self.held_out.data["pass"], points["pass"][:n_drawn]):
            if n_drawn < len(points["pass"]):
                self.held_out.stream({name: column[n_drawn:] for name, column in points.items()})
        else:
            self.held_out.data = points

    def _rows(self, begin: int) -> dict[str, Any]:
        """Rows of the figures' columns, from row `begin` on."""
        columns, facts = self._history.columns, self._history.facts
        names = [*_PLAIN, *(name for name in columns.names() if name.startswith((PART, WORKER)))]
        rows = {name: np.array(columns.column(name, begin)) for name in names}
        for name in names:
            if name.startswith(PART):  # stacks have no gaps
                rows[name] = np.nan_to_num(rows[name])
        change, phase = np.array(columns.column("change", begin)), np.array(columns.column("phase", begin))
        rows["gain"], rows["loss"] = np.where(change > 0, change, np.nan), np.where(change < 0, -change, np.nan)
        rows["mb_per_second"] = np.array(columns.column("bytes_per_second", begin)) / 1e6
        tol, warmup_tol = (float(facts.get(name, np.nan)) for name in ("tol", "warmup_tol"))
        rows["tol"] = np.where(phase == 0, warmup_tol, tol)
        return rows

    def _shade(self) -> None:
        """Let the shading of phases follow the passes; that of the present phase is open, so it need not be moved."""
        numbers = np.array(self._history.columns.column("pass"))
        phases = np.array(self._history.columns.column("phase"))
        for k, phase in enumerate(PHASES[:2]):
            inside = numbers[phases == k]
            if not len(inside):
                continue
            end = None if phases[-1] == k and self._history.state == RUNNING else float(inside.max()) + 0.5
            extent = float(inside.min()) - 0.5, end
            if self._shaded.get(phase) == extent:  # Bokeh would send it all the same
                continue
            self._shaded[phase] = extent
            for panel in self._panels:
                box = panel.boxes[phase]
                (box.left, box.right), box.visible = extent, True


def layout_of(history: RunHistory) -> tuple[Any, ...]:
    """What decides which figures a run has.

    Parameters
    ----------
    history : RunHistory
        The run.

    Returns
    -------
    tuple
        Equal for equal figures.
    """
    extra = (_has(history, name) for name in ("validation", "checkpoint_age"))
    return (*history.columns.names(), *extra, bool(history.facts))


def _has(history: RunHistory, name: str) -> bool:
    return any(number == number for number in history.columns.column(name))
