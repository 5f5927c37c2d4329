"""Installing the page on the scheduler of a fit. May import: distributed, cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client

from vmfa_dask.cluster.page.announcer import Announcer
from vmfa_dask.cluster.page.plugin import NAME, PagePlugin

logger = logging.getLogger(__name__)


def install_page(client: Client) -> bool:
    """Let the scheduler of a client show its runs at ``/vmfa`` of its dashboard; it does so for the first fit.

    Parameters
    ----------
    client : distributed.Client
        Of the driver.

    Returns
    -------
    bool
        False where the scheduler cannot, which is logged: its environment lacks this package, or it takes no plugins.
    """
    try:
        client.register_plugin(PagePlugin(), name=NAME)
    except Exception as error:
        logger.info("no page of runs on the dashboard: %s: %s", type(error).__name__, error)
        return False
    return True


@contextmanager
def announced(client: Client, announcer: Announcer) -> Iterator[None]:
    """Show a run on the page for the enclosed lines, and how it ended after them.

    Parameters
    ----------
    client : distributed.Client
        Of the driver.
    announcer : Announcer
        Of the run.
    """
    if not install_page(client):
        announcer.silence()
    announcer.begin()
    try:
        yield
    except BaseException as error:
        announcer.end(error)
        raise
    announcer.end(None)
