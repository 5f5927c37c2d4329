"""The folder or prefix through which the processes of a run exchange versions. May import: store, cluster, service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vmfa_dask.cluster.workers import ask, naming_a_lost_scheduler
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.store.exchange import ExchangeFolder, running_kernel
from vmfa_dask.store.scratch import scratch_folder

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


def _reuse_files(client: Any, folder: str) -> None:
    """Let the files of a folder be reused where all present workers run on this machine."""
    kernels = client.run(running_kernel, on_error="ignore")
    if set(kernels.values()) == {running_kernel()}:
        ExchangeFolder(folder).reuse_files()


def _workers_that_miss(client: Any, folder: str) -> list[str]:
    """Addresses of the workers that do not see a folder of this machine."""
    answers = ask(client, os.path.isdir, folder)
    return sorted(worker for worker, seen in answers.items() if not seen)
