"""The figures of one run: each shows some columns of its passes. May import: bokeh, cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.models import (
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    DataRange1d,
    HoverTool,
    Legend,
    LegendItem,
    LinearAxis,
    NumeralTickFormatter,
)
from bokeh.plotting import figure

from vmfa_dask.cluster.page.collector import PART, WORKER

HEIGHT = 232
# Frames of panels that stand above each other begin and end alike.
_BORDER = 72, 24
WARM_UP, TRAINING = "#EAAA6D", "#4477AA"
SHADES = {"warm-up": 0.2, "training": 0.07}
_BLUE, _ORANGE, _GREEN, _RED = "#4477AA", "#D9822B", "#228833", "#CC3311"
_RIGHT = "right"
# Colours that are told apart with colour-blind eyes, too (P. Tol).
_PARTS = {
    "read": "#BBBBBB",
    "search": "#4477AA",
    "log_joints": "#66CCEE",
    "truncation": "#228833",
    "moments": "#CCBB44",
    "tallies": "#EE6677",
    "update": "#AA3377",
}
_WORKERS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#222222")
_MOST_IN_LEGEND, _MOST_IN_LINE = 8, 5


@dataclass
class Panel:
    """A figure, and what moves with the run beside its columns.

    Parameters
    ----------
    figure : bokeh.plotting.figure
        The figure.
    boxes : dict of str to BoxAnnotation
        Shading of the phases.
    """

    figure: Any
    boxes: dict[str, BoxAnnotation]


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
        plot = figure(
            title=title,
            height=HEIGHT,
            sizing_mode="stretch_width",
            x_range=self._range,
            x_axis_label="pass",
            y_axis_label=unit,
            tools="",
            toolbar_location=None,
            output_backend="canvas",
            **options,
        )
        plot.title.text_font_size, plot.title.text_color = "13px", "#222222"
        plot.outline_line_color = "#DDDDDD"
        plot.grid.grid_line_color, plot.grid.grid_line_alpha = "#E4E4E4", 0.8
        plot.min_border_left, plot.min_border_right = _BORDER
        _style_axes(plot.axis)
        plot.xaxis.formatter = BasicTickFormatter(use_scientific=False, precision=0)
        plot.xaxis.ticker.min_interval = 1
        colors = {"warm-up": WARM_UP, "training": TRAINING}
        boxes = {
            phase: BoxAnnotation(
                left=0, right=0, fill_color=colors[phase], fill_alpha=alpha, line_color=None, level="image", visible=False
            )
            for phase, alpha in SHADES.items()
        }
        for box in boxes.values():
            plot.add_layout(box)
        return Panel(plot, boxes)

    def _line(self, panel: Panel, column: str, color: str, source: Any = None, **options: Any) -> Any:
        data = source or self._passes
        line = panel.figure.line("pass", column, source=data, line_color=color, line_width=1.8, **options)
        # Alone, the first pass would not be seen.
        dots = panel.figure.scatter("pass", column, source=data, color=color, size=3, **_only_range(options))
        return LegendItem(label="", renderers=[line, dots])

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
        items = [_named(self._line(panel, "free_energy", _BLUE), "training rows")]
        tips = [("pass", "@pass"), ("free energy", "@free_energy{0.0000}")]
        if with_held_out:
            items.append(_named(self._line(panel, "validation", _ORANGE, self._held_out), "held-out rows"))
        _add_legend(panel, items)
        _add_hover(panel, items[0], tips)
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
        items = [_named(self._line(panel, "gain", _BLUE), "gain")]
        fall = panel.figure.scatter("pass", "loss", source=self._passes, marker="x", color=_RED, size=7)
        tol = panel.figure.line("pass", "tol", source=self._passes, color=_RED, line_width=1.5, line_dash="dashed")
        items += [LegendItem(label="fall", renderers=[fall]), LegendItem(label="tol", renderers=[tol])]
        _add_legend(panel, items)
        _add_hover(panel, items[0], [("pass", "@pass"), ("gain", "@gain{0.00e+0}"), ("tol", "@tol{0.00e+0}")])
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
        panel = self._panel("Time per pass, by part", "seconds, summed over tasks")
        colors = [_PARTS.get(name.removeprefix(PART), "#999999") for name in names]
        areas = panel.figure.varea_stack(list(names), x="pass", source=self._passes, color=colors, fill_alpha=0.85)
        items = [
            LegendItem(label=name.removeprefix(PART).replace("_", "-"), renderers=[area])
            for name, area in zip(names, areas, strict=True)
        ]
        wall = self._line(panel, "seconds", "#000000")
        _add_legend(panel, [_named(wall, "wall clock")])
        _add_legend(panel, list(reversed(items)), "right")
        tips = [(name.removeprefix(PART).replace("_", "-"), f"@{{{name}}}{{0.000}} s") for name in names]
        _add_hover(panel, wall, [("pass", "@pass"), ("wall clock", "@seconds{0.000} s"), *tips])
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
        items = [
            _named(self._line(panel, name, _WORKERS[k % len(_WORKERS)]), _worker_label(name))
            for k, name in enumerate(names)
        ]
        wall = panel.figure.line("pass", "seconds", source=self._passes, color="#000000", line_dash="dotted")
        items.insert(0, LegendItem(label="wall clock", renderers=[wall]))
        _add_legend(panel, items[:1] if len(items) > _MOST_IN_LINE else items)
        if _MOST_IN_LINE < len(items) <= _MOST_IN_LEGEND + 1:
            _add_legend(panel, items[1:], "right")
        for name, item in zip(names, items[1:], strict=True):
            tip = [(_worker_label(name), f"@{{{name}}}{{0.000}} s in pass @pass")]
            _add_hover(panel, item, tip, "mouse" if len(items) > _MOST_IN_LEGEND + 1 else "vline")
        panel.figure.y_range.start = 0
        return panel

    def rates(self) -> Panel:
        """Rows per second, and bytes that were read.

        Returns
        -------
        Panel
        """
        panel = self._panel("Throughput", "rows per second")
        rows = _named(self._line(panel, "rows_per_second", _BLUE), "rows/s")
        _add_right_axis(panel, "MB per second")
        area = panel.figure.varea(
            "pass", 0, "mb_per_second", source=self._passes, color=_ORANGE, fill_alpha=0.3, y_range_name=_RIGHT
        )
        _fit_ranges(panel)
        _add_legend(panel, [rows, LegendItem(label="read from the store (right)", renderers=[area])])
        tips = [("pass", "@pass"), ("rows/s", "@rows_per_second{0,0}"), ("MB/s", "@mb_per_second{0,0.0}")]
        _add_hover(panel, rows, tips)
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
        line = _named(self._line(panel, "joints_per_row", _BLUE), "log-joints per row")
        _add_legend(panel, [line])
        _add_hover(panel, line, [("pass", "@pass"), ("log-joints per row", "@joints_per_row{0.0}")])
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
        panel.figure.y_range.start, panel.figure.y_range.end = 0, max(1.0, 1.08 * n_components)
        alive = _named(self._line(panel, "n_alive", _BLUE), "alive")
        _add_right_axis(panel, "so far")
        right = {"y_range_name": _RIGHT}
        dropped = _named(self._line(panel, "dropped", _ORANGE, **right), "dropped (right)")
        split = _named(self._line(panel, "split", _GREEN, line_dash="dashed", **right), "split (right)")
        panel.figure.extra_y_ranges[_RIGHT].min_interval = 4
        panel.figure.yaxis[1].ticker.min_interval = 1
        _fit_ranges(panel)
        _add_legend(panel, [alive, dropped, split])
        tips = [("pass", "@pass"), ("alive", "@n_alive{0,0}"), ("dropped", "@dropped{0,0}"), ("split", "@split{0,0}")]
        _add_hover(panel, alive, tips)
        panel.figure.yaxis.formatter = NumeralTickFormatter(format="0,0")
        return panel

    def checkpoint(self) -> Panel:
        """Age of the last checkpoint after each pass.

        Returns
        -------
        Panel
        """
        panel = self._panel("Age of the last checkpoint", "seconds, after the pass")
        line = _named(self._line(panel, "checkpoint_age", _BLUE), "age")
        _add_legend(panel, [line])
        _add_hover(panel, line, [("pass", "@pass"), ("age", "@checkpoint_age{0.0} s")])
        panel.figure.y_range.start = 0
        return panel


def _only_range(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name == "y_range_name"}


def _add_right_axis(panel: Panel, unit: str) -> None:
    """An axis at the right, from 0."""
    panel.figure.extra_y_ranges = {_RIGHT: DataRange1d(start=0)}
    axis = LinearAxis(y_range_name=_RIGHT, axis_label=unit)
    _style_axes([axis])
    axis.axis_label_text_color = _ORANGE
    panel.figure.add_layout(axis, "right")


def _fit_ranges(panel: Panel) -> None:
    """Let each axis follow the lines that are drawn with it, and no others."""
    plot = panel.figure
    right = [renderer for renderer in plot.renderers if renderer.y_range_name == _RIGHT]
    plot.extra_y_ranges[_RIGHT].renderers = right
    if isinstance(plot.y_range, DataRange1d):
        plot.y_range.renderers = [renderer for renderer in plot.renderers if renderer not in right]


def _named(item: Any, label: str) -> Any:
    return LegendItem(label=label, renderers=item.renderers)


def _worker_label(column: str) -> str:
    name = column.removeprefix(WORKER)
    return f"worker {name}" if name.isdigit() else name


def _style_axes(axes: Any) -> None:
    for axis in axes:
        axis.axis_label_text_font_size, axis.major_label_text_font_size = "11px", "10px"
        axis.axis_label_text_font_style, axis.axis_label_text_color = "normal", "#555555"
        axis.major_label_text_color, axis.axis_line_color = "#555555", "#BBBBBB"
        axis.minor_tick_line_color, axis.major_tick_line_color = None, "#BBBBBB"
        axis.axis_label_standoff = 4


def _add_legend(panel: Panel, items: list[Any], place: str = "above") -> None:
    legend = Legend(
        items=items,
        orientation="horizontal" if place == "above" else "vertical",
        label_text_font_size="10px",
        label_text_color="#555555",
        border_line_color=None,
        background_fill_alpha=0,
        padding=0,
        margin=2,
        spacing=8 if place == "above" else 0,
        label_standoff=3,
        glyph_width=14,
        glyph_height=12,
        label_height=12,
    )
    panel.figure.add_layout(legend, place)


def _add_hover(panel: Panel, item: Any, tips: list[tuple[str, str]], mode: str = "vline") -> None:
    panel.figure.add_tools(HoverTool(renderers=[item.renderers[0]], tooltips=tips, mode=mode))
