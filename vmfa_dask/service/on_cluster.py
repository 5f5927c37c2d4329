"""A run on a cluster: the checks before it, and what is placed there for it and removed afterwards.

May import: runtime, kernels, run, store, cluster, service.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.cluster.conditions import Conditions, check_processors, warn_of_idle_workers
from vmfa_dask.cluster.dask_executor import DaskExecutor
from vmfa_dask.cluster.memory_check import check_memory, smallest_limit
from vmfa_dask.cluster.package_versions import check_versions
from vmfa_dask.cluster.page.announcer import Announcer
from vmfa_dask.cluster.page.installation import announced
from vmfa_dask.cluster.process_workers import note_worker
from vmfa_dask.cluster.worker_context import RunReference, forget, forget_everywhere, register
from vmfa_dask.cluster.worker_rows import check_visible
from vmfa_dask.cluster.workers import naming_a_lost_scheduler, shares_process, wait_for_workers
from vmfa_dask.kernels.processor import Processor
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.held_out import training_rows
from vmfa_dask.run.observer import Observer
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import Storage
from vmfa_dask.run.validation import Validation
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.service.checkpoints import KeptRun
from vmfa_dask.service.exchange_folder import check_room, exchange_folder, versions_here
from vmfa_dask.service.options import Options
from vmfa_dask.service.row_copies import copies_of_rows
from vmfa_dask.service.sources import spill
from vmfa_dask.store.exchange import exchange_at
from vmfa_dask.store.rows import ZarrRows


@dataclass(frozen=True)
class CheckedCluster:
    """A cluster that can work on a run.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    local : bool
        Whether the scheduler and all workers live in this process.
    cache_bytes : int
        Decoded rows that a worker process keeps in memory, at most.
    threads : int or None
        Threads that compute in a worker process; None for as many as Dask threads it has.
    scratch : str or None
        Folder for what the run places beside its own folder; None for the default.
    total_bytes : int
        Peak memory of the run in a worker, without the cache.
    processor : Processor or None
        Of the workers; None where it is not known.
    n_processes : int
        Worker processes, about: those of this process count as one.
    """

    client: Any
    local: bool
    cache_bytes: int
    threads: int | None
    scratch: str | None
    total_bytes: int
    processor: Processor | None
    n_processes: int = 1


def check_cluster(
    client: Any,
    projection: Mapping[str, int],
    options: Options,
    advise: Callable[[int], str],
) -> CheckedCluster:
    """Refuse a cluster before the first task that cannot work on the run.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    projection : mapping of str to int
        Peak bytes of a worker, by what they hold.
    options : Options
        Of the fit.
    advise : callable
        What to change, in words, for a run that may take so many bytes in a worker.

    Returns
    -------
    CheckedCluster
        For `executor_on`.

    Raises
    ------
    SchedulerLost
        When the connection to the scheduler broke.
    TimeoutError
        When no worker comes in time.
    RuntimeError
        When workers have other versions of this package, or processors that round differently.
    MemoryError
        When the run does not fit a worker.
    """
    workers = workers_for(client, options)
    with naming_a_lost_scheduler(client):
        check_versions(client)
        processor = check_processors(client)
    limit = smallest_limit(workers)
    room, wanted = check_memory(projection, limit, advise), options.cache_bytes
    cache = room if wanted is None else wanted if limit is None else min(room, wanted)
    total, local = sum(projection.values()), shares_process(client, workers)
    threads = options.threads
    if local and threads is None:  # the cores that the user gave to the workers of this process
        threads = max(1, sum(worker["nthreads"] for worker in workers.values()))
    n_processes = 1 if local else len(workers)
    return CheckedCluster(client, local, cache, threads, options.scratch, total, processor, n_processes)


def workers_for(client: Any, options: Options) -> dict[str, Any]:
    """Wait for the first worker of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    options : Options
        Says how long.

    Returns
    -------
    dict
        Facts of the workers by address.

    Raises
    ------
    SchedulerLost
        When the connection to the scheduler broke.
    TimeoutError
        When none comes in time.
    """
    with naming_a_lost_scheduler(client):
        return wait_for_workers(client, options.worker_timeout)


@contextmanager
def executor_on(
    cluster: CheckedCluster,
    rows: RowSource,
    settings: Settings,
    plan: Plan,
    kept: KeptRun | None,
    observer: Observer,
    validation: Validation | None,
) -> Iterator[DaskExecutor]:
    """Make an executor for the enclosed lines; what the run placed on the cluster is removed after them.

    Parameters
    ----------
    cluster : CheckedCluster
        Where the run works.
    rows : RowSource
        All rows of its data; those in memory are written to a folder where workers are other processes.
    settings : Settings
        Of the run.
    plan : Plan
        Of the run.
    kept : KeptRun or None
        Where the run is kept, if it is.
    observer : Observer
        Told of what the run does.
    validation : Validation or None
        Rows that are held out.

    Yields
    ------
    DaskExecutor
        Of one run.

    Raises
    ------
    FileNotFoundError
        When workers do not see the rows, or the folder through which processes exchange versions.
    OSError
        When that folder has no room for them.
    SchedulerLost
        When the connection to the scheduler broke.
    """
    name = uuid.uuid4().hex[:8]
    warn_of_idle_workers(len(plan.groups), cluster.n_processes)
    storage: Storage
    with ExitStack() as stack:
        copies = stack.enter_context(copies_of_rows(settings, cluster.scratch)) if cluster.local else None
        if cluster.local:
            folder, storage = None, stack.enter_context(versions_here(kept, cluster.scratch, rows, settings))
        else:
            folder = stack.enter_context(exchange_folder(kept, cluster.client, cluster.scratch, name))
            check_room(folder, rows, settings)
            storage = exchange_at(folder)
        if folder is not None and isinstance(rows, ArrayRows):
            rows = spill(rows, f"{folder}/rows.zarr")
        elif folder is not None and isinstance(rows, ZarrRows):
            with naming_a_lost_scheduler(cluster.client):
                check_visible(cluster.client, rows)
        if folder is not None:
            with naming_a_lost_scheduler(cluster.client):
                cluster.client.run(note_worker, on_error="ignore")
        reference = _reference(name, cluster, rows, settings, plan, folder, validation)
        observer.kernels_begin()  # worker processes do it in their first task
        if cluster.local:
            cores = Cores(cluster.threads or 1)
            if isinstance(rows, ZarrRows):
                rows.cache_bytes = cluster.cache_bytes
                rows.use_threads(cores.n_threads)
            compile_ahead(settings, rows.dtype, reference.validates)
            kept_rows = training_rows(rows, reference.held_out)
            register(reference, RunContext(kept_rows, settings, plan, storage, cores, copies))
        try:
            announcer = Announcer(
                cluster.client, name, settings, plan, storage, _label(kept, rows), rows.feature_shape, _age_of(kept)
            )
            executor = DaskExecutor(cluster.client, reference, storage, observer, announcer)
            try:
                with announced(cluster.client, announcer):
                    yield executor
            finally:
                executor.end()
        finally:
            forget(name)
            if not cluster.local:
                forget_everywhere(cluster.client, name)


def _label(kept: KeptRun | None, rows: RowSource) -> str:
    """What the page of runs calls a run: the last part of its folder, or of the store of its rows."""
    path = kept.path if kept is not None else rows.url if isinstance(rows, ZarrRows) else "rows in memory"
    return path.rstrip("/").rpartition("/")[-1]


def _age_of(kept: KeptRun | None) -> Callable[[], float | None]:
    return (lambda: None) if kept is None else lambda: kept.seconds_since_kept


def _reference(
    name: str,
    cluster: CheckedCluster,
    rows: RowSource,
    settings: Settings,
    plan: Plan,
    folder: str | None,
    validation: Validation | None,
) -> RunReference:
    """What the tasks of a run carry."""
    url, array, missing = (rows.url, rows.name, rows.missing) if isinstance(rows, ZarrRows) else (None, None, "refuse")
    return RunReference(
        run=name,
        settings=settings,
        plan=plan,
        folder=folder,
        url=url,
        array=array,
        missing=missing,
        cache_bytes=cluster.cache_bytes,
        threads=cluster.threads,
        origin=getattr(rows, "origin", None),
        conditions=Conditions.of(cluster.processor, cluster.total_bytes, rows),
        held_out=validation.held_out if validation is not None else None,
        validates=validation is not None,
    )
