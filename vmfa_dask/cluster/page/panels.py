"""The figures of one run: which columns of its passes each one shows. May import: bokeh, cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import ColumnDataSource, DataRange1d, LegendItem, NumeralTickFormatter

from vmfa_dask.cluster.page.collector import PART, WORKER
from vmfa_dask.cluster.page.panel import BLACK, BLUE, GREEN, ORANGE, RED, Panel

# Colours that colour-blind eyes tell apart, too (P. Tol).
_PARTS = {
    "read": "#BBBBBB",
    "search": "#4477AA",
    "log_joints": "#66CCEE",
    "truncation": "#228833",
    "moments": "#CCBB44",
    "tallies": "#EE6677",
    "update": "#AA3377",
    "validation": ORANGE,  # as the curve of the held-out rows
}
_OTHER_PART = "#999999"
_WORKERS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#222222")
# Workers that a legend names above a figure, and beside it.
_MOST_ABOVE, _MOST_BESIDE = 3, 8


class Panels:
    """Makes the figures of one run.

    Parameters
    ----------
    passes : ColumnDataSource
        One row per pass.
    held_out : ColumnDataSource
        The passes that have a held-out score.
    """

    def __init__(self, passes: ColumnDataSource, held_out: ColumnDataSource) -> None:
        self._passes, self._held_out = passes, held_out
        self._range = DataRange1d(range_padding=0.03, min_interval=1)

    def _panel(self, title: str, unit: str, **options: Any) -> Panel:
        return Panel(title, unit, self._passes, self._range, **options)

    def free_energy(self, with_held_out: bool) -> Panel:
        """Free energy by pass, and the held-out score where there is one.

        Parameters
        ----------
        with_held_out : bool
            Whether there is one.

        Returns
        -------
        Panel
        """
        panel = self._panel("Free energy", "nats per row")
        items = [panel.line("free_energy", BLUE, "training rows")]
        if with_held_out:
            items.append(panel.line("validation", ORANGE, "held-out rows", self._held_out))
        panel.add_legend(items)
        panel.add_hover(items[0], [("free energy", "@free_energy{0.0000}")])
        return panel

    def gain(self, unit: str) -> Panel:
        """Gain of the free energy against the tolerance.

        Parameters
        ----------
        unit : str
            Of both.

        Returns
        -------
        Panel
        """
        panel = self._panel("Gain per pass, against tol", unit, y_axis_type="log")
        gain = panel.line("gain", BLUE, "gain")
        fall = panel.figure.scatter("pass", "loss", source=self._passes, marker="x", color=RED, size=7)
        tol = panel.figure.step(
            "pass", "tol", source=self._passes, mode="center", color=RED, line_width=1.5, line_dash="dashed"
        )
        falls, tols = LegendItem(label="fall", renderers=[fall]), LegendItem(label="tol", renderers=[tol])
        panel.add_legend([gain, falls, tols])
        panel.add_hover(gain, [("gain", "@gain{0.00e+0}"), ("tol", "@tol{0.00e+0}")])
        return panel

    def parts(self, names: Sequence[str]) -> Panel:
        """Seconds of tasks by kind of work, stacked, and the wall-clock time of the pass.

        Parameters
        ----------
        names : sequence of str
            Columns of the parts.

        Returns
        -------
        Panel
        """
        panel = self._panel("Time per pass, by part", "seconds of all tasks")
        labels = [name.removeprefix(PART) for name in names]
        colors = [_PARTS.get(label, _OTHER_PART) for label in labels]
        areas = panel.figure.varea_stack(list(names), x="pass", source=self._passes, color=colors, fill_alpha=0.85)
        labels = [label.replace("_", "-") for label in labels]
        items = [LegendItem(label=label, renderers=[area]) for label, area in zip(labels, areas, strict=True)]
        wall = panel.line("seconds", BLACK, "wall clock")
        panel.add_legend([wall])
        panel.add_legend(list(reversed(items)), "right")
        tips = [(label, f"@{{{name}}}{{0.000}} s") for label, name in zip(labels, names, strict=True)]
        panel.add_hover(wall, [("wall clock", "@seconds{0.000} s"), *tips])
        panel.figure.y_range.start = 0
        return panel

    def workers(self, names: Sequence[str]) -> Panel:
        """Seconds per pass in which each worker had a task of the run.

        Parameters
        ----------
        names : sequence of str
            Columns of the workers.

        Returns
        -------
        Panel
        """
        panel = self._panel("Time per pass, by worker", "seconds with tasks")
        wall = panel.figure.line("pass", "seconds", source=self._passes, color=BLACK, line_dash="dotted")
        walls = LegendItem(label="wall clock", renderers=[wall])
        labels = [_worker_label(name) for name in names]
        colors = [_WORKERS[k % len(_WORKERS)] for k in range(len(names))]
        items = [panel.line(*each) for each in zip(names, colors, labels, strict=True)]
        panel.add_legend([walls, *items] if len(items) <= _MOST_ABOVE else [walls])
        if _MOST_ABOVE < len(items) <= _MOST_BESIDE:
            panel.add_legend(items, "right")
        tips = [(label, f"@{{{name}}}{{0.000}} s") for label, name in zip(labels, names, strict=True)]
        if len(items) <= _MOST_BESIDE:
            panel.add_hover(walls, [("wall clock", "@seconds{0.000} s"), *tips])
        else:
            for item, tip in zip(items, tips, strict=True):
                panel.add_hover(item, [tip], "mouse")
        panel.figure.y_range.start = 0
        return panel

    def rates(self) -> Panel:
        """Rows per second, and bytes that were read.

        Returns
        -------
        Panel
        """
        panel = self._panel("Throughput", "rows per second")
        right = panel.add_right_axis("MB per second", least=1.0, whole=False)
        area = panel.figure.varea(
            "pass", 0, "mb_per_second", source=self._passes, color=ORANGE, fill_alpha=0.3, **right
        )
        rows = panel.line("rows_per_second", BLUE, "rows/s")
        panel.fit_axes()
        panel.add_legend([rows, LegendItem(label="read from the store (right)", renderers=[area])])
        panel.add_hover(rows, [("rows/s", "@rows_per_second{0,0}"), ("MB/s", "@mb_per_second{0,0.0}")])
        panel.figure.yaxis[0].formatter = NumeralTickFormatter(format="0.[0]a")
        panel.figure.y_range.start = 0
        return panel

    def joints(self) -> Panel:
        """Log-joints evaluated per row.

        Returns
        -------
        Panel
        """
        panel = self._panel("Work per row", "log-joints per row")
        line = panel.line("joints_per_row", BLUE, "log-joints per row")
        panel.add_legend([line])
        panel.add_hover(line, [("log-joints per row", "@joints_per_row{0.0}")])
        panel.figure.y_range.start = 0
        return panel

    def components(self, n_components: int) -> Panel:
        """Components that are alive, and those dropped and split so far.

        Parameters
        ----------
        n_components : int
            C.

        Returns
        -------
        Panel
        """
        panel = self._panel("Components", "alive")
        right = panel.add_right_axis("so far", least=4.0)
        alive = panel.line("n_alive", BLUE, "alive")
        dropped = panel.line("dropped", ORANGE, "dropped (right)", **right)
        split = panel.line("split", GREEN, "split (right)", line_dash="dashed", **right)
        panel.fit_axes()
        panel.add_legend([alive, dropped, split])
        panel.add_hover(alive, [("alive", "@n_alive{0,0}"), ("dropped", "@dropped{0,0}"), ("split", "@split{0,0}")])
        panel.figure.yaxis.formatter = NumeralTickFormatter(format="0,0")
        panel.figure.y_range.start, panel.figure.y_range.end = 0, max(1.0, 1.08 * n_components)
        return panel

    def checkpoint(self) -> Panel:
        """Age of the last checkpoint after each pass.

        Returns
        -------
        Panel
        """
        panel = self._panel("Age of the last checkpoint", "seconds, after the pass")
        line = panel.line("checkpoint_age", BLUE, "age")
        panel.add_legend([line])
        panel.add_hover(line, [("age", "@checkpoint_age{0.0} s")])
        panel.figure.y_range.start = 0
        return panel


def _worker_label(column: str) -> str:
    name = column.removeprefix(WORKER)
    return f"worker {name}" if name.isdigit() else name
