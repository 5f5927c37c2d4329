"""The live page of runs on the Dask dashboard, at ``/vmfa``; ``dask scheduler --preload vmfa_dask.cluster.page`` adds it.

Fits install it by themselves (`installation`). What drivers announce (`announcer`) is kept by the scheduler
(`collector`, `columns`, `plugin`), drawn by Bokeh where somebody looks (`document`, `view`, `panels`, `header`), and
served to Prometheus (`metrics`). May import: distributed, cluster.
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
