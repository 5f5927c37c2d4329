"""`fit_distributed` and `fit_local`: from data to a fitted model. May import: all rooms below."""

from __future__ import annotations

import os
from typing import Any, Literal, overload

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.cluster.arrays import is_lazy
from vmfa_dask.cluster.clients import Connection, connected
from vmfa_dask.cluster.drivers import start_driver
from vmfa_dask.cluster.interrupts import left_to_the_driver
from vmfa_dask.cluster.warmup import warm_up
from vmfa_dask.kernels.processor import this_processor
from vmfa_dask.run.advice import Advice
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.projection import projected_bytes
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.start import Start
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.service.checkpoints import kept_run
from vmfa_dask.service.detached import DetachedRun
from vmfa_dask.service.endings import ending_by_signals
from vmfa_dask.service.inputs import (
    BegunStart,
    asked_settings,
    check_start,
    describe_start,
    given_start,
    make_settings,
    settings_of_fit,
    whole_start,
)
from vmfa_dask.service.on_cluster import check_cluster, executor_on, workers_for
from vmfa_dask.service.options import Options, make_options
from vmfa_dask.service.sources import in_a_store, opened_rows
from vmfa_dask.service.training import Fit, Progress, show, train
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.values import Mixture

# What the driver of a detached run is told of how to work.
_OF_DRIVERS = ("n_groups", "threads", "cache_bytes", "checkpoint_share", "scratch", "run", "worker_timeout")
_LOCAL_CACHE_BYTES = 2**30


@overload
def fit_distributed(data: Any, *, n_components: int, detach: Literal[True], **options: Any) -> DetachedRun: ...
@overload
def fit_distributed(data: Any, *, n_components: int, detach: Literal[False] = False, **options: Any) -> Fit: ...
def fit_distributed(
    data: Any,
    *,
    n_components: int,
    n_factors: int | None = None,
    preset: str = "default",
    client: Any = None,
    array: str | None = None,
    sample_dim: str | None = None,
    missing_chunks: str = "refuse",
    start: Start | Mixture | MixtureModel | None = None,
    n_groups: int | None = None,
    threads: int | None = None,
    cache_bytes: int | str | None = None,
    run: str | os.PathLike[str] | None = None,
    resume: str = "auto",
    checkpoint_share: float = 0.015,
    scratch: str | os.PathLike[str] | None = None,
    detach: bool = False,
    worker_timeout: float | str = 60.0,
    progress: Progress | None = None,
    **settings: Any,
) -> Fit | DetachedRun:
    """Train a mixture of factor analyzers on a Dask cluster.

    Parameters
    ----------
    data : rows (N, ...) of any integer or float dtype: path or URL of a Zarr store, path of a .npy file, an array or
        group of zarr, a DataArray or Dataset of xarray, an array or data frame of Dask (it is written to a temporary
        store first), a data frame of pandas, a NumPy array, or lists. Every axis but the first is flattened, in C
        order.
    n_components, n_factors : C and H; by default 5 factors, fewer where rows have no more than 5 features, and none
        where `covariance_type` has none
    preset : "default", or "paper" for the settings of the paper's experiments
    client : `distributed.Client`, the address of a scheduler or a cluster such as `LocalCluster`, for which a client is
        opened and closed again; by default the current client, or the scheduler for which Dask is configured. A call
        within a task of the cluster leaves its thread to the tasks of the fit for that time.
    array : path of the array in a Zarr group, or name of the variable in a Dataset
    sample_dim : dimension of an xarray variable that counts samples; needed unless the first one says so by its name
    missing_chunks : "refuse" a Zarr array some of whose chunks are not stored, or "fill" their rows with its fill value
    start : parameters to begin with in place of seeds, such as the model of another fit; a `Start` holds neighbours and
        kept components too
    n_groups : partial E-steps per iteration; part of the result's identity (sums are grouped by it), so that a run
        gives the same bytes on any number of workers. The default suits the size of the data and of the model.
    threads : threads that compute in each worker process; by default as many as Dask threads it has
    cache_bytes : rows that each worker process keeps in memory, decoded, at most; by default, and at most, half of what
        the run leaves of the worker's memory limit (none where it has no limit). 0 reads them anew in each pass. A
        number, or a text such as "1 GB".
    run : folder, or URL of an object store, that keeps the run: its settings, its records, and what is needed to go on
        after the last complete pass. The same call with the same place goes on from there and ends in the bytes of an
        undisturbed run; with a smaller `tol` or a larger `max_iter` it trains a finished run further. Rows that have
        changed since then, and another start, are refused.
    resume : "auto" goes on where `run` holds a run and begins one elsewhere, "never" refuses a folder that holds one,
        "require" refuses one that does not
    checkpoint_share : part of the run's time that keeping it in `run` may take; 1 keeps it after every pass
    scratch : folder through which worker processes exchange parameters, which all of them see and which is fast; by
        default the folder `run`, or the temporary folder of this machine (where `run` is a URL and a worker does not
        see that folder, the URL). Not used when the cluster lives in this process.
    detach : run the driver on the cluster and return a `DetachedRun` at once; needs `run` and data in a store. The
        client may leave: `attach(run)` finds the run again.
    worker_timeout : seconds to wait for a first worker, or a text such as "2 minutes". A cluster that scales with its
        load is given a task to grow by.
    progress : called with the record of each iteration
    **settings : further numbers of the run, see `Settings`

    Returns
    -------
    Fit, or DetachedRun with ``detach=True``

    Raises
    ------
    SchedulerLost
        When the scheduler went away; the message says where the run stands and how to go on.
    KeyboardInterrupt, SystemExit
        At Ctrl-C, and when a signal asked for the end of the process (SIGTERM, SIGHUP), in the main thread and where
        nothing else is set for it: the last complete pass is kept, and what the fit has put into `scratch` is removed.
        The message (of SIGTERM, in the log) says what is kept or lost; a note of other errors says so too.
    TypeError
        When `data`, `start` or `client` is none of what is expected; for an asynchronous client.
    RuntimeError
        When workers have another version of this package, or vectors of different widths; also later, for workers
        that have come.
    ValueError
        For settings and data that cannot be trained; the message names argument or chunk, what was found, what is
        expected. Raised before any task where that is possible.
    FileNotFoundError
        When there is no array at `data`.
    OSError
        When `run` or `scratch` cannot be written, or has too little space, named with its path.
    MemoryError
        When a task would not fit the memory limit of a worker; the largest part is named, and what would fit.
    """
    asked = asked_settings(preset, n_components, n_factors, settings)
    make_settings(**asked)  # refused before anything is opened
    options = make_options(
        n_groups=n_groups,
        threads=threads,
        cache_bytes=cache_bytes,
        run=run,
        resume=resume,
        checkpoint_share=checkpoint_share,
        scratch=scratch,
        worker_timeout=worker_timeout,
        detach=detach,
        progress=progress,
    )
    if options.detach and (options.run is None or progress is not None or not in_a_store(data)):
        raise ValueError("detach=True: expected run=folder, data in a Zarr store, and no progress function")
    begin = given_start(start)
    with ending_by_signals(), connected(client) as connection:
        client = connection.client
        if is_lazy(data):  # its workers write it first
            workers_for(client, options)
        with opened_rows(data, array, sample_dim, missing_chunks, client, options.scratch) as rows:
            numbers = settings_of_fit(asked, options.run, rows)
            check_start(begin, numbers, rows)
            with kept_run(options, numbers, rows, begin) as (kept, plan), left_to_the_driver(client):
                projection = projected_bytes(rows, numbers, plan)
                cluster = check_cluster(client, projection, options, Advice(rows, numbers, plan, options.n_groups))
                if kept is not None and not options.detach:
                    kept.note_processor(cluster.processor)
                if kept is None or not options.detach:
                    with executor_on(cluster, rows, numbers, plan, kept) as executor:

                        def report(record: IterationRecord) -> None:
                            executor.announce(record.as_dict())
                            show(record, progress)

                        return train(executor, whole_start(begin), rows.feature_shape, report, kept)
                if isinstance(begin, Start):  # written here: a start is too large to travel with a task
                    kept.begin_with(begin)
            assert isinstance(rows, ZarrRows)
        same = {"n_components": n_components, "n_factors": n_factors, "preset": preset, **settings}
        same["start"] = BegunStart(describe_start(begin)["digest"])
        return _detached(connection, kept.path, rows, same, options)


def _detached(connection: Connection, run: str, rows: ZarrRows, same: dict[str, Any], options: Options) -> DetachedRun:
    """The same call as a task of the cluster; its start lies in the folder of the run by now."""
    cut = {"array": rows.name, "missing_chunks": rows.missing}
    place = {name: getattr(options, name) for name in _OF_DRIVERS}
    future = start_driver(connection.client, run, fit_distributed, rows.url, {**same, **cut, **place})
    return DetachedRun(run, future, connection.keep())


def fit_local(
    data: Any,
    *,
    n_components: int,
    n_factors: int | None = None,
    preset: str = "default",
    array: str | None = None,
    sample_dim: str | None = None,
    missing_chunks: str = "refuse",
    start: Start | Mixture | MixtureModel | None = None,
    n_groups: int | None = None,
    threads: int | None = None,
    run: str | os.PathLike[str] | None = None,
    resume: str = "auto",
    checkpoint_share: float = 0.015,
    cache_bytes: int | str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Fit:
    """Train in this process without Dask; parameters as `fit_distributed`.

    From the same store it gives the same bytes as `fit_distributed`. (An array in memory has no chunks to align groups
    of rows with: its sums may be cut elsewhere.) Decoded rows of a store are kept in memory up to `cache_bytes`, by
    default 1 GiB.
    """
    asked = asked_settings(preset, n_components, n_factors, settings)
    make_settings(**asked)  # refused before anything is opened
    options = make_options(
        n_groups=n_groups,
        threads=threads,
        cache_bytes=cache_bytes,
        run=run,
        resume=resume,
        checkpoint_share=checkpoint_share,
        progress=progress,
    )
    begin = given_start(start)
    with ending_by_signals(), opened_rows(data, array, sample_dim, missing_chunks) as rows:
        numbers = settings_of_fit(asked, options.run, rows)
        check_start(begin, numbers, rows)
        cores = Cores(options.threads or available_cores())
        if isinstance(rows, ZarrRows):
            rows.cache_bytes = _LOCAL_CACHE_BYTES if options.cache_bytes is None else options.cache_bytes
            rows.use_threads(cores.n_threads)
        with kept_run(options, numbers, rows, begin) as (kept, plan):
            if kept is not None:
                kept.note_processor(this_processor())
            warm_up(numbers, rows.dtype)
            context = RunContext(rows, numbers, plan, MemoryStorage(), cores)
            begun = (SerialExecutor(context), whole_start(begin), rows.feature_shape)
            return train(*begun, lambda record: show(record, progress), kept)
