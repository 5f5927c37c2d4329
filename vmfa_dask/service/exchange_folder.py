"""Where the versions of a run are: the folder or prefix through which processes exchange them, or this process.

May import: run, store, cluster, service.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vmfa_dask.cluster.workers import ask, naming_a_lost_scheduler
from vmfa_dask.run.projection import FILES_FROM_BYTES, parameters_bytes, stored_bytes
from vmfa_dask.run.row_source import ArrayRows, RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import MemoryStorage, Storage
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.store.exchange import ExchangeFolder, running_kernel
from vmfa_dask.store.scratch import scratch_folder

logger = logging.getLogger("vmfa_dask")

_MOST_NAMES = 5


@contextmanager
def exchange_folder(kept: KeptRun | None, client: Any, scratch: str | None, name: str) -> Iterator[str]:
    """Hold the place through which processes exchange versions during the enclosed lines.

    Parameters
    ----------
    kept : KeptRun or None
        Where the run is kept, if it is.
    client : distributed.Client
        Of the cluster.
    scratch : str or None
        Folder for what the run places beside its own folder; None for the default.
    name : str
        Of the run on its cluster.

    Yields
    ------
    str
        Path or URL.

    Raises
    ------
    FileNotFoundError
        When workers do not see the folder.
    SchedulerLost
        When the connection to the scheduler broke.
    """
    try:
        with _folder_here(kept, scratch, name) as path:
            with naming_a_lost_scheduler(client):
                blind = _workers_that_miss(client, path)
            if not blind:
                with naming_a_lost_scheduler(client):
                    _reuse_files(client, path)
                yield path
                return
        if kept is None or not kept.remote or scratch is not None:
            raise FileNotFoundError(
                f"workers do not see the folder {path} through which processes exchange parameters: "
                f"{', '.join(blind[:_MOST_NAMES])}; pass scratch=folder (or run=folder) that all machines share"
            )
        yield kept.exchange(name)
    finally:
        if kept is not None and kept.remote:
            kept.remove_exchange()


@contextmanager
def _folder_here(kept: KeptRun | None, scratch: str | None, name: str) -> Iterator[str]:
    """A folder for the exchange: in that of the run, which has an owner already, or in scratch."""
    if kept is None or scratch is not None or kept.remote:
        with scratch_folder(name, scratch) as path:
            yield path
        return
    try:
        yield kept.exchange(name)
    finally:
        kept.remove_exchange()


@contextmanager
def versions_here(kept: KeptRun | None, scratch: str | None, rows: RowSource, settings: Settings) -> Iterator[Storage]:
    """Hold the versions of a run whose tasks all run in this process during the enclosed lines.

    Large ones are files, which readers map: of up to three versions of the parameters, a pass reads one, block by
    block, while it updates them.

    Parameters
    ----------
    kept : KeptRun or None
        Where the run is kept, if it is.
    scratch : str or None
        Folder for what the run places beside its own folder; None for the default.
    rows : RowSource
        The training rows.
    settings : Settings
        The run.

    Yields
    ------
    Storage
        Memory, or a temporary folder.
    """
    if parameters_bytes(rows, settings) < FILES_FROM_BYTES:
        yield MemoryStorage()
        return
    with _folder_here(kept, scratch, uuid.uuid4().hex[:8]) as path:
        needed, free = stored_bytes(rows, settings), shutil.disk_usage(path).free
        if free >= needed:
            yield ExchangeFolder(path)
            return
        logger.warning(
            "versions of the parameters stay in memory: they would take %.0f MiB in %s, where %.0f MiB are free; "
            "scratch=folder names another place",
            needed / 2**20,
            path,
            free / 2**20,
        )
    yield MemoryStorage()


def check_room(folder: str, rows: RowSource, settings: Settings) -> None:
    """Refuse a folder that has no room for what the processes of a run exchange.

    Parameters
    ----------
    folder : str
        Path, or URL, of which nothing is known.
    rows : RowSource
        The training rows, which are written there as well if they are in memory.
    settings : Settings
        The run.

    Raises
    ------
    OSError
        With the space that is needed and the space that is free.
    """
    if "://" in folder:
        return
    in_memory = rows.n_rows * n_features_of(rows) * rows.dtype.itemsize if isinstance(rows, ArrayRows) else 0
    needed, free = stored_bytes(rows, settings, shared=True) + in_memory, shutil.disk_usage(folder).free
    if free < needed:
        message = (
            f"the processes of the run exchange up to {needed / 2**20:.0f} MiB there, and {free / 2**20:.0f} MiB are "
            "free; scratch=folder names another place"
        )
        raise OSError(errno.ENOSPC, message, folder)


def _reuse_files(client: Any, folder: str) -> None:
    """Let the files of a folder be reused where all present workers run on this machine."""
    kernels = client.run(running_kernel, on_error="ignore")
    if set(kernels.values()) == {running_kernel()}:
        ExchangeFolder(folder).reuse_files()


def _workers_that_miss(client: Any, folder: str) -> list[str]:
    """Addresses of the workers that do not see a folder of this machine."""
    answers = ask(client, os.path.isdir, folder)
    return sorted(worker for worker, seen in answers.items() if not seen)
