"""The page as a Bokeh document: a selector of runs, and the chosen runs side by side.

A document lives as long as a browser shows it, and so does its timer. May import: distributed, bokeh, cluster.
"""

from __future__ import annotations

import logging
from time import time
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models import CheckboxButtonGroup, Div
from distributed.dashboard.components.scheduler import BOKEH_THEME
from distributed.dashboard.components.scheduler import env as dashboard_templates

from vmfa_dask.cluster.page.collector import Collector
from vmfa_dask.cluster.page.header import EMPTY, name_of, shading_html
from vmfa_dask.cluster.page.view import RunView

logger = logging.getLogger(__name__)

_MILLISECONDS = 1000
# Narrower columns would not be readable.
_MOST_SIDE_BY_SIDE = 3
# Buttons as wide as their names, on as many lines as they need.
_BUTTONS = ".bk-btn-group { flex-wrap: wrap; } .bk-btn-group > .bk-btn { flex-grow: 0; }"


class Page:
    """The document's contents, and what brings them up to date.

    Parameters
    ----------
    collector : Collector
        The runs.

    Attributes
    ----------
    root : bokeh model
        The whole page.
    views : list of (str, RunView)
        The runs that it shows, by their names.
    selector : CheckboxButtonGroup
        One button per run, the newest first.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._names: list[str] = []  # of the selector's buttons
        self._follows, self._setting, self._failed = True, False, False
        self.views: list[tuple[str, RunView]] = []
        self.selector = CheckboxButtonGroup(
            labels=[], active=[], margin=(6, 5, 4, 5), sizing_mode="stretch_width", stylesheets=[_BUTTONS]
        )
        self.selector.on_change("active", lambda name, old, new: self._choose())
        legend = Div(text=shading_html("#F7EADE", "#EDF0F4"), margin=(13, 20, 4, 5), width=180)
        self._bar = row(self.selector, legend, sizing_mode="stretch_width", visible=False)
        self._body = row(Div(text=EMPTY), sizing_mode="stretch_width", spacing=16)
        self.root = column(self._bar, self._body, sizing_mode="stretch_width")
        self.update()

    def update(self) -> None:
        """Show what has come since the last call; what goes wrong is logged once."""
        try:
            self._update_selector()
            self._update_views()
        except Exception:
            if not self._failed:
                logger.warning("the page of runs (/vmfa) cannot be drawn", exc_info=True)
            self._failed = True

    def _choose(self) -> None:
        if not self._setting:
            newest = self._names[:1] if self._names else []
            self._follows = self._chosen() in ([], newest)
            self.update()

    def _chosen(self) -> list[str]:
        return [self._names[k] for k in sorted(self.selector.active) if k < len(self._names)]

    def _update_selector(self) -> None:
        runs = self._collector.runs
        names = list(reversed(runs))
        if names == self._names and self.selector.labels == [name_of(runs[name]) for name in names]:
            return
        chosen = [name for name in self._chosen() if name in runs]
        if self._follows or not chosen:
            chosen = names[:1]
        self._setting, self._names = True, names
        self.selector.labels = [name_of(runs[name]) for name in names]
        self.selector.active = [names.index(name) for name in chosen]
        self._setting = False
        self._bar.visible = bool(names)

    def _update_views(self) -> None:
        shown = (self._chosen() or self._names)[:_MOST_SIDE_BY_SIDE]
        if not self._chosen():
            shown = shown[:1]
        kept = [(name, view) for name, view in self.views if view.is_current()]
        if [name for name, _ in kept] != shown:
            alone, before = len(shown) == 1, dict(kept) if (len(shown) == 1) == (len(self.views) == 1) else {}
            self.views = [(name, before.get(name) or RunView(self._collector.runs[name], alone)) for name in shown]
            self._body.children = [view.root for _, view in self.views] or [Div(text=EMPTY)]
        now = time()
        for _, view in self.views:
            view.update(now)


def fill_document(document: Document, collector: Collector, variables: dict[str, Any]) -> Page:
    """Make the page of a session.

    Parameters
    ----------
    document : bokeh.document.Document
        Of the session.
    collector : Collector
        The runs.
    variables : dict
        Of the templates of Dask's dashboard.

    Returns
    -------
    Page
    """
    page = Page(collector)
    document.title = "Dask: vmfa_dask"
    document.add_root(page.root)
    document.template = dashboard_templates.get_template("simple.html")
    document.template_variables.update(variables)
    document.theme = BOKEH_THEME
    document.add_periodic_callback(page.update, _MILLISECONDS)
    return page
