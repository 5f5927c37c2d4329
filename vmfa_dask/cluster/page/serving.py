"""Adding the page and the metrics to the web server of a running scheduler.

May import: cluster, distributed, tornado; bokeh where the scheduler has a dashboard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from distributed import Scheduler
from tornado.ioloop import IOLoop

from vmfa_dask.cluster.page.collector import Collector
from vmfa_dask.cluster.page.metrics import MetricsHandler, PrometheusSource, register

logger = logging.getLogger(__name__)

PAGE = "vmfa"


def serve(scheduler: Scheduler, collector: Collector) -> Callable[[], None] | None:
    """Serve the page, linked from the menu of Dask's pages, and the metrics.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        Which is running.
    collector : Collector
        What the page shows.

    Returns
    -------
    callable or None
        Takes the metrics away again from those of the process, where they are there.
    """
    dashboard = _dashboard_of(scheduler)
    prefix = "" if dashboard is None else str(dashboard.prefix).strip("/")
    path = f"/{prefix}/{PAGE}/metrics" if prefix else f"/{PAGE}/metrics"
    extra = {"dask_server": scheduler, "extra": {"collector": collector}}
    scheduler.http_application.add_handlers(r".*", [(path, MetricsHandler, extra)])
    if dashboard is None:
        logger.info("the scheduler has no dashboard, so there is no page of runs; metrics are at %s", path)
    else:
        _add_page(scheduler, collector, prefix)
    undo: Callable[[], None] | None = register(PrometheusSource(collector))
    return undo


def _dashboard_of(scheduler: Scheduler) -> Any:
    """Dask's own application of Bokeh; None where bokeh is missing, or the dashboard is switched off."""
    applications = getattr(scheduler.http_application, "applications", [])
    return next((app for app in applications if hasattr(app, "prefix") and hasattr(app, "app_paths")), None)


def _add_page(scheduler: Scheduler, collector: Collector, prefix: str) -> None:
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables

    from vmfa_dask.cluster.page.document import fill_document

    # Dask's own pages hold the same list, so that their menus have the page, too.
    variables = template_variables(scheduler)
    if PAGE not in variables["pages"]:
        variables["pages"].insert(1, PAGE)

    def make(server: Scheduler, variables: dict[str, Any], document: Any) -> None:
        fill_document(document, collector, variables)

    application = BokehApplication({f"/{PAGE}": make}, scheduler, prefix=prefix, template_variables=variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()
