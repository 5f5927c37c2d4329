"""A run on a cluster: what is checked before it, and what is put there for it and removed afterwards.

May import: em, store, cluster, service.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vmfa_dask.cluster.arrays import check_visible
from vmfa_dask.cluster.conditions import Conditions, check_processors
from vmfa_dask.cluster.context import RunReference, forget, forget_everywhere, register, threads_of_process
from vmfa_dask.cluster.executor import DaskExecutor
from vmfa_dask.cluster.memory import check_memory, smallest_limit
from vmfa_dask.cluster.versions import check_versions
from vmfa_dask.cluster.warmup import warm_up
from vmfa_dask.cluster.workers import ask, naming_a_lost_scheduler, shares_process, wait_for_workers
from vmfa_dask.kernels.processor import Processor
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import MemoryStorage, Storage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.service.options import Options
from vmfa_dask.service.sources import spill
from vmfa_dask.store.exchange import ExchangeFolder, exchange_at, running_kernel
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.scratch import scratch_folder

_MOST_NAMES = 5


@dataclass(frozen=True)
class CheckedCluster:
    """Where a run works: client, whether everything lives in this process, bytes for a cache of rows, and choices;
    bytes that the run takes in a worker, and the workers' processor where one is known."""

    client: Any
    local: bool
    cache_bytes: int
    threads: int | None
    scratch: str | None
    total_bytes: int
    processor: Processor | None


def check_cluster(
    client: Any,
    projection: Mapping[str, int],
    options: Options,
    advise: Callable[[int], str],
) -> CheckedCluster:
    """Refuse what cannot work before the first task: no workers, others than expected, too little memory."""
    workers = workers_for(client, options)
    with naming_a_lost_scheduler(client):
        check_versions(client)
        processor = check_processors(client)
    limit = smallest_limit(workers)
    room, wanted = check_memory(projection, limit, advise), options.cache_bytes
    cache = room if wanted is None else wanted if limit is None else min(room, wanted)
    total, local = sum(projection.values()), shares_process(client, workers)
    return CheckedCluster(client, local, cache, options.threads, options.scratch, total, processor)


def workers_for(client: Any, options: Options) -> dict[str, Any]:
    """The workers of a cluster, as soon as there is one.

    Raises
    ------
    TimeoutError
        When none comes in time.
    """
    with naming_a_lost_scheduler(client):
        return wait_for_workers(client, options.worker_timeout)


@contextmanager
def executor_on(
    cluster: CheckedCluster, rows: RowSource, settings: Settings, plan: Plan, kept: KeptRun | None
) -> Iterator[DaskExecutor]:
    """An executor of one run; what the run puts on the cluster is removed in the end."""
    name = uuid.uuid4().hex[:8]
    with _exchange_folder(kept, cluster, name) as folder:
        if folder is not None and isinstance(rows, ArrayRows):
            rows = spill(rows, f"{folder}/rows.zarr")
        elif folder is not None and isinstance(rows, ZarrRows):
            with naming_a_lost_scheduler(cluster.client):
                check_visible(cluster.client, rows)
        url, member, missing = _place_of(rows)
        place = (name, settings, plan, folder, url, member, missing)
        conditions = Conditions.of(cluster.processor, cluster.total_bytes, rows)
        origin = getattr(rows, "origin", None)
        reference = RunReference(*place, cluster.cache_bytes, cluster.threads, origin, conditions)
        storage: Storage = MemoryStorage() if folder is None else exchange_at(folder)
        if cluster.local:
            cores = Cores(cluster.threads or threads_of_process(cluster.client.scheduler.address))
            if isinstance(rows, ZarrRows):
                rows.cache_bytes = cluster.cache_bytes
                rows.use_threads(cores.n_threads)
            warm_up(settings, rows.dtype)
            register(reference, RunContext(rows, settings, plan, storage, cores))
        try:
            executor = DaskExecutor(cluster.client, reference, storage)
            try:
                yield executor
            finally:
                executor.end()
        finally:
            forget(name)
            if not cluster.local:
                forget_everywhere(cluster.client, name)


def _place_of(rows: RowSource) -> tuple[str | None, str | None, str]:
    """Where a process opens the rows for itself."""
    return (rows.url, rows.name, rows.missing) if isinstance(rows, ZarrRows) else (None, None, "refuse")


@contextmanager
def _exchange_folder(kept: KeptRun | None, cluster: CheckedCluster, name: str) -> Iterator[str | None]:
    """Path or URL through which processes share versions in work; None in one process."""
    if cluster.local:
        yield None
        return
    try:
        with _folder_here(kept, cluster, name) as path:
            with naming_a_lost_scheduler(cluster.client):
                blind = _workers_that_miss(cluster.client, path)
            if not blind:
                with naming_a_lost_scheduler(cluster.client):
                    _reuse_files(cluster.client, path)
                yield path
                return
        if kept is None or not kept.remote or cluster.scratch is not None:
            raise FileNotFoundError(
                f"workers do not see the folder {path} through which processes exchange parameters: "
                f"{', '.join(blind[:_MOST_NAMES])}; pass scratch=folder (or run=folder) that all machines share"
            )
        yield kept.exchange(name)
    finally:
        if kept is not None and kept.remote:
            kept.remove_exchange()


@contextmanager
def _folder_here(kept: KeptRun | None, cluster: CheckedCluster, name: str) -> Iterator[str]:
    """A folder for versions in work: in that of the run, which has an owner already, or in scratch."""
    if kept is None or cluster.scratch is not None or kept.remote:
        with scratch_folder(name, cluster.scratch) as path:
            yield path
        return
    try:
        yield kept.exchange(name)
    finally:
        kept.remove_exchange()


def _reuse_files(client: Any, folder: str) -> None:
    """Let the files of a folder be written again where all workers that are there now run on this machine."""
    kernels = client.run(running_kernel, on_error="ignore")
    if set(kernels.values()) == {running_kernel()}:
        ExchangeFolder(folder).reuse_files()


def _workers_that_miss(client: Any, folder: str) -> list[str]:
    """Addresses of the workers that do not see a folder of this machine."""
    found = ask(client, os.path.isdir, folder)
    return sorted(worker for worker, seen in found.items() if not seen)
