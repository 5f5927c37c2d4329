"""How a run went. May import: run, plot, matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from vmfa_dask.plot.picture import BLUE, GREY, ORANGE, Picture
from vmfa_dask.run.records import IterationRecord

# Marker face and edge of the passes of each phase.
_COLORS = {"warm-up": (ORANGE, ORANGE), "training": (BLUE, BLUE), "final": ("white", BLUE)}


def history(fit: Any) -> Picture:
    """Draw the free energy over the passes of a run, with its phases marked; a second panel enlarges the second half.

    Where rows were held out, their free energy is a second curve.

    Parameters
    ----------
    fit : Fit, or sequence of IterationRecord
        A finished fit, or the records of a run that may still be in progress (`DetachedRun.records`).

    Returns
    -------
    Picture
        A figure with one axes, or with two if there are more than four passes.

    Raises
    ------
    ValueError
        When there is no record.
    """
    records: Sequence[IterationRecord] = getattr(fit, "history", fit)
    if not records:
        raise ValueError("the history has no records: there is nothing to draw")
    # The first passes gain so much that the whole range hides the later gains.
    parts = [records, records[len(records) // 2 :]] if len(records) > 4 else [records]
    picture = Picture(figsize=(5.5 * len(parts), 4.5), facecolor="white", layout="constrained")
    panels = picture.subplots(1, len(parts), squeeze=False)[0]
    for axes, part in zip(panels, parts, strict=True):
        _draw_curve(axes, part)
        axes.set_xlabel("pass over the rows")
    panels[0].set_ylabel("free energy per row (nats)")
    warm_up = [record.iteration for record in records if record.phase == "warm-up"]
    if warm_up:
        panels[0].axvspan(warm_up[0] - 0.5, warm_up[-1] + 0.5, color=ORANGE, alpha=0.12, linewidth=0)
    if len(parts) > 1:
        panels[1].set_title("second half", fontsize=11, color=GREY)
    panels[0].legend(loc="lower right", frameon=False)
    return picture


def _draw_curve(axes: Axes, records: Sequence[IterationRecord]) -> None:
    passes, energies = [r.iteration for r in records], [r.free_energy for r in records]
    axes.plot(passes, energies, color=GREY, linewidth=1.2, zorder=1)
    for phase, (face, edge) in _COLORS.items():
        points = [(r.iteration, r.free_energy) for r in records if r.phase == phase]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=25, facecolor=face, edgecolor=edge, label=phase, zorder=2)
    held_out = [(r.iteration, r.validation) for r in records if r.validation is not None]
    if held_out:
        x, y = zip(*held_out, strict=True)
        axes.plot(x, y, color=ORANGE, linewidth=1.2, marker="x", label="held-out rows", zorder=2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GREY, alpha=0.15)
