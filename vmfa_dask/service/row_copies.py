"""Where a fit in one process keeps its rows in the order of their cells. May import: run, store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vmfa_dask.run.plan import reorders_rows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Storage
from vmfa_dask.store.exchange import ExchangeFolder
from vmfa_dask.store.scratch import scratch_folder


@contextmanager
def copies_of_rows(settings: Settings, scratch: str | None = None) -> Iterator[Storage | None]:
    """Hold a temporary folder for re-ordered rows during the enclosed lines.

    They are mapped from there: rows in memory would be there twice, and others need not fit.

    Parameters
    ----------
    settings : Settings
        Of the run.
    scratch : str or None
        Where the folder is made; by default in that of the system.

    Yields
    ------
    Storage or None
        None where rows keep their order.

    Raises
    ------
    OSError
        If no folder can be made there.
    """
    if not reorders_rows(settings):
        yield None
        return
    with scratch_folder("rows", scratch) as folder:
        yield ExchangeFolder(folder)
