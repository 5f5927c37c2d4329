"""The live page of runs on the Dask dashboard, at ``/vmfa``.

Fits install it by themselves (`installation`); ``dask scheduler --preload vmfa_dask.cluster.page`` has it at once. What
drivers announce (`announcer`) is kept by the scheduler (`plugin`, `collector`, `columns`), drawn by Bokeh for as long
as a browser shows it (`document`, `view`, `points`, `panels`, `panel`, `header`, `pictures`), and served to Prometheus
(`metrics`). May import: distributed, cluster.
"""

from __future__ import annotations

from distributed import Scheduler


async def dask_setup(scheduler: Scheduler) -> None:
    """Add the page to a scheduler that starts: Dask calls this for a preloaded module.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        It starts the plugin itself.
    """
    from vmfa_dask.cluster.page.plugin import NAME, PagePlugin

    if NAME not in scheduler.plugins:
        scheduler.add_plugin(PagePlugin(), name=NAME)
