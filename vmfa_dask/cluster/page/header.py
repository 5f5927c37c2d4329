"""Texts of the page, as HTML. Standard library alone."""

from __future__ import annotations

from html import escape
from math import isnan
from time import localtime, strftime

from vmfa_dask.cluster.page.collector import RUNNING, RunHistory

_COLORS = {RUNNING: "#228833", "converged": "#4477AA", "ended at max_iter": "#4477AA", "ended": "#4477AA"}
_BAD = "#CC3311"
EMPTY = (
    '<div style="padding:40px 10px;font-size:15px;color:#555">No run yet. Every <code>fit_distributed</code> on this '
    "cluster is shown here from its first pass on.</div>"
)

WAITING = '<div style="padding:30px 5px;font-size:13px;color:#555">The figures appear with the first pass.</div>'
NOT_KEPT = (
    '<div style="padding:4px 20px 0 72px;font-size:13px;color:#555">'
    '<b style="color:#222">Age of the last checkpoint</b>'
    "<br><br>This run is not kept. With <code>run=folder</code> a fit keeps checkpoints, and resumes from them.</div>"
)


def name_of(history: RunHistory) -> str:
    """What the selector calls a run.

    Parameters
    ----------
    history : RunHistory
        The run.

    Returns
    -------
    str
        Its label, and when it began.
    """
    return f"{history.label} · {strftime('%H:%M:%S', localtime(history.begun))}"


def facts_html(history: RunHistory, now: float) -> str:
    """What a run is and how it stands, as two lines of HTML.

    Parameters
    ----------
    history : RunHistory
        The run.
    now : float
        Seconds since the epoch.

    Returns
    -------
    str
    """
    columns, running = history.columns, history.state == RUNNING
    color = _COLORS.get(history.state, _BAD)
    state = f"{history.phase or 'initialisation'}" if running else history.state
    badge = (
        f'<span style="background:{color};color:white;border-radius:9px;padding:2px 9px;font-size:12px">'
        f"{escape(state)}</span>"
    )
    standing = [f"{history.n_passes} passes", f"begun {strftime('%H:%M:%S', localtime(history.begun))}"]
    end = now if running else history.latest
    standing.append(f"{'running' if running else 'ended after'} {_duration(end - history.begun)}".replace("  ", " "))
    if running and history.n_passes:
        standing.append(f"last pass {_duration(now - history.latest)} ago")
    age = history.checkpoint_age(now)
    if running and not isnan(age):
        standing.append(f"last checkpoint {_duration(age)} ago")
    energy = columns.last("free_energy")
    if not isnan(energy):
        standing.insert(0, f"free energy <b>{energy:.5g}</b> nats per row")
    line = _joined(standing)
    return (
        f'<div style="font-size:16px;color:#222;line-height:1.9"><b>{escape(history.label)}</b> &ensp;{badge}&ensp;'
        f'<span style="font-size:12.5px;color:#555">{line}</span></div>{_reason(history)}'
        f'<div style="font-size:12.5px;color:#555">{_settings(history)}</div>'
    )


def _reason(history: RunHistory) -> str:
    return f'<div style="font-size:12.5px;color:{_BAD}">{escape(history.reason)}</div>' if history.reason else ""


def _settings(history: RunHistory) -> str:
    facts = history.facts
    if not facts:
        return ""
    shape = facts.get("feature_shape") or []
    n_features = 1
    for size in shape:
        n_features *= int(size)
    form = f" ({' × '.join(map(str, shape))})" if len(shape) > 1 else ""
    parts = [
        f"{facts['n_rows']:,} rows",
        f"D = {n_features:,}{form}",
        f"C = {facts['n_components']:,} components",
        f"H = {facts['n_factors']} factors",
        f"tol = {facts['tol']:.2g}",
        f'run <span style="font-family:monospace">{escape(history.run)}</span>',
    ]
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    """Facts in a line that breaks between them alone."""
    return " ".join(
        f'<span style="white-space:nowrap">{part}{" &ensp;·&ensp;" if k + 1 < len(parts) else ""}</span>'
        for k, part in enumerate(parts)
    )


def _duration(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds / 3600:.1f} h"


def shading_html(warm_up: str, training: str) -> str:
    """What the shading of the figures means.

    Parameters
    ----------
    warm_up, training : str
        Its colours.

    Returns
    -------
    str
    """

    def chip(color: str, text: str) -> str:
        box = f"display:inline-block;width:12px;height:12px;background:{color};border:1px solid #ccc"
        box += ";margin:0 5px 0 14px"
        return f'<span style="white-space:nowrap"><span style="{box};vertical-align:-2px"></span>{text}</span>'

    return f'<div style="font-size:12px;color:#555">{chip(warm_up, "warm-up")}{chip(training, "training")}</div>'
