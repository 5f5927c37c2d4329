"""A figure of the page: its style, shading of phases, lines, legend and axes. May import: bokeh."""

from __future__ import annotations

from collections.abc import Sequence
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
)
from bokeh.plotting import figure

BLUE, ORANGE, GREEN, RED, BLACK = "#4477AA", "#D9822B", "#228833", "#CC3311", "#000000"
# Colour and opacity behind the passes of a phase.
SHADES = {"warm-up": ("#EAAA6D", 0.2), "training": (BLUE, 0.07)}
_HEIGHT = 232
# Frames of panels that stand above each other begin and end alike.
_BORDER = 72, 24
_RIGHT = "right"


class Panel:
    """A figure over passes.

    Parameters
    ----------
    title : str
        Of the figure.
    unit : str
        Of its numbers.
    passes : ColumnDataSource
        One row per pass.
    x_range : DataRange1d
        The passes that all panels of a run show.
    **options
        Of the figure.

    Attributes
    ----------
    figure : bokeh.plotting.figure
        What the page holds.
    boxes : dict of str to BoxAnnotation
        Shading of the phases.
    dots : list of GlyphRenderer
        Marks of the passes, which many passes do without.
    """

    def __init__(self, title: str, unit: str, passes: ColumnDataSource, x_range: DataRange1d, **options: Any) -> None:
        self._passes = passes
        self.dots: list[Any] = []
        self.figure = plot = figure(
            title=title,
            height=_HEIGHT,
            sizing_mode="stretch_width",
            x_range=x_range,
            x_axis_label="pass",
            y_axis_label=unit,
            tools="",
            toolbar_location=None,
            **options,
        )
        plot.title.text_font_size, plot.title.text_color = "13px", "#222222"
        plot.outline_line_color = "#DDDDDD"
        plot.grid.grid_line_color, plot.grid.grid_line_alpha = "#E4E4E4", 0.8
        plot.min_border_left, plot.min_border_right = _BORDER
        plot.xaxis.formatter = BasicTickFormatter(use_scientific=False, precision=0)
        plot.xaxis.ticker.min_interval = 1
        for axis in plot.axis:
            _style(axis)
        self.boxes = {phase: _shade(*shade) for phase, shade in SHADES.items()}
        for box in self.boxes.values():
            plot.add_layout(box)

    def line(
        self, column: str, color: str, label: str, source: ColumnDataSource | None = None, **options: Any
    ) -> LegendItem:
        """Draw a column as a line, with a dot per pass: alone, the first pass would not be seen.

        Parameters
        ----------
        column : str
            Of the source.
        color, label : str
            Of the line.
        source : ColumnDataSource, optional
            Another one than that of the passes.
        **options
            Of the line.

        Returns
        -------
        LegendItem
        """
        data = source or self._passes
        line = self.figure.line("pass", column, source=data, line_color=color, **{"line_width": 1.8, **options})
        axis = {name: value for name, value in options.items() if name == "y_range_name"}
        dots = self.figure.scatter("pass", column, source=data, color=color, size=3, **axis)
        self.dots.append(dots)
        return LegendItem(label=label, renderers=[line, dots])

    def add_right_axis(self, unit: str, least: float, whole: bool = True) -> dict[str, str]:
        """Add an axis at the right, from 0.

        Parameters
        ----------
        unit : str
            Of its numbers.
        least : float
            Smallest number at its top.
        whole : bool
            Whether its numbers are whole.

        Returns
        -------
        dict
            Options of the lines that belong to it.
        """
        self.figure.extra_y_ranges = {_RIGHT: DataRange1d(start=0, min_interval=least)}
        axis = LinearAxis(y_range_name=_RIGHT, axis_label=unit)
        if whole:
            axis.ticker.min_interval = 1
        _style(axis)
        axis.axis_label_text_color = ORANGE
        self.figure.add_layout(axis, "right")
        return {"y_range_name": _RIGHT}

    def fit_axes(self) -> None:
        """Let each axis follow the lines that are drawn with it, and no others."""
        plot = self.figure
        right = [renderer for renderer in plot.renderers if renderer.y_range_name == _RIGHT]
        plot.extra_y_ranges[_RIGHT].renderers = right
        plot.y_range.renderers = [renderer for renderer in plot.renderers if renderer not in right]

    def add_legend(self, items: Sequence[LegendItem], side: str = "above") -> None:
        """Add a legend outside of the frame.

        Parameters
        ----------
        items : sequence of LegendItem
            What it explains.
        side : {"above", "right"}
            Where it stands.
        """
        above = side == "above"
        legend = Legend(
            items=list(items),
            orientation="horizontal" if above else "vertical",
            label_text_font_size="10px",
            label_text_color="#555555",
            border_line_color=None,
            background_fill_alpha=0,
            padding=0,
            margin=2,
            spacing=8 if above else 0,
            label_standoff=3,
            glyph_width=14,
            glyph_height=12,
            label_height=12,
        )
        self.figure.add_layout(legend, side)

    def add_hover(self, item: LegendItem, tips: Sequence[tuple[str, str]], mode: str = "vline") -> None:
        """Show numbers beside the pointer.

        Parameters
        ----------
        item : LegendItem
            Whose line the pointer finds.
        tips : sequence of (str, str)
            Name and format of each number.
        mode : {"vline", "mouse"}
            Whether the pointer finds the nearest pass, or the line that it touches.
        """
        tool = HoverTool(renderers=[item.renderers[0]], tooltips=[("pass", "@pass"), *tips], mode=mode)
        self.figure.add_tools(tool)


def _shade(color: str, alpha: float) -> BoxAnnotation:
    return BoxAnnotation(
        left=0, right=0, fill_color=color, fill_alpha=alpha, line_color=None, level="image", visible=False
    )


def _style(axis: Any) -> None:
    axis.axis_label_text_font_size, axis.major_label_text_font_size = "11px", "10px"
    axis.axis_label_text_font_style, axis.axis_label_text_color = "normal", "#555555"
    axis.major_label_text_color, axis.axis_line_color = "#555555", "#BBBBBB"
    axis.minor_tick_line_color, axis.major_tick_line_color = None, "#BBBBBB"
    axis.axis_label_standoff = 4
