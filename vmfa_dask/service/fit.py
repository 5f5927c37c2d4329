"""`fit_distributed` and `fit_local`: from data to a fitted model. May import: all rooms below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack, overload

from vmfa_dask.cluster.clients import Connection, connected
from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.cluster.drivers import drives_here, start_driver
from vmfa_dask.cluster.interrupts import left_to_the_driver
from vmfa_dask.cluster.worker_rows import is_lazy
from vmfa_dask.kernels.processor import this_processor
from vmfa_dask.run.advice import Advice
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.held_out import training_rows
from vmfa_dask.run.projection import projected_bytes
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.start import Start
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.service.call import Call, checked_call
from vmfa_dask.service.detached import DetachedRun
from vmfa_dask.service.endings import ending_by_signals
from vmfa_dask.service.exchange_folder import versions_here
from vmfa_dask.service.inputs import BegunStart, check_start, describe_start, settings_of_fit, whole_start
from vmfa_dask.service.keywords import ClusterKeywords, LocalKeywords, naming_keywords
from vmfa_dask.service.on_cluster import check_cluster, executor_on, workers_for
from vmfa_dask.service.opened_run import kept_run
from vmfa_dask.service.progress import display_of, show_dashboard
from vmfa_dask.service.row_copies import copies_of_rows
from vmfa_dask.service.sources import opened_rows
from vmfa_dask.service.training import Fit, show, train
from vmfa_dask.service.validation import held_out_rows, make_validation, validation_of_driver
from vmfa_dask.service.watching import told_to_clients
from vmfa_dask.store.gate import is_in_a_store
from vmfa_dask.store.rows import ZarrRows

# Options that the driver of a detached run gets with its task.
_OF_DRIVERS = (
    "n_groups", "threads", "cache_bytes", "checkpoint_share", "scratch", "run", "worker_timeout", "validation_every",
    "patience",
)  # fmt: skip
_LOCAL_CACHE_BYTES = 2**30


@overload
def fit_distributed(
    data: Any, *, n_components: int, detach: Literal[False] = False, **keywords: Unpack[ClusterKeywords]
) -> Fit: ...
@overload
def fit_distributed(
    data: Any, *, n_components: int, detach: Literal[True], **keywords: Unpack[ClusterKeywords]
) -> DetachedRun: ...
@overload
def fit_distributed(
    data: Any, *, n_components: int, detach: bool, **keywords: Unpack[ClusterKeywords]
) -> Fit | DetachedRun: ...
@naming_keywords(ClusterKeywords)
def fit_distributed(
    data: Any, *, n_components: int, detach: bool = False, **keywords: Unpack[ClusterKeywords]
) -> Fit | DetachedRun:
    """Train a mixture of factor analyzers on a Dask cluster.

    Parameters
    ----------
    data : array_like of shape (N, ...)
        Rows of any integer or float dtype: path or URL of a Zarr store, path of a .npy file, an array or group of zarr,
        a DataArray or Dataset of xarray, an array or data frame of Dask (it is written to a temporary store first), a
        data frame of pandas, a NumPy array, or lists. All axes but the first are flattened, in C order.
    n_components : int
        C, number of components.
    detach : bool
        Run the driver on the cluster and return a `DetachedRun` at once; needs `run` and data in a store. The client
        may leave: `attach(run)` finds the run again.
    n_factors : int, optional
        H, columns of each loading matrix. By default 5, fewer where rows have no more than 5 features, and none where
        `covariance_type` has none.
    covariance_type, noise, learn_weights, truncation, search, similarity, empty_components, neighborhood, \
search_every, screening, random_candidates, tol, warmup_tol, max_iter, max_warmup_iter, standardize, reg_covar, \
init_params, n_init, chain_length, locality, random_state, precision
        Further settings of the run, described in `Settings`; None stands for the default.
    preset : {"default", "paper"}
        "paper" has the settings of the paper's experiments.
    array : str, optional
        Path of the array in a Zarr group, or name of the variable in a Dataset.
    sample_dim : str, optional
        Dimension of an xarray variable that counts samples; needed unless the name of the first one says so.
    missing_chunks : {"refuse", "fill"}
        Refuse a Zarr array some of whose chunks are not stored, or fill their rows with its fill value.
    start : Start, Mixture or MixtureModel, optional
        Parameters to begin with in place of seeds, such as the model of another fit; a `Start` may hold neighbours and
        kept components too.
    n_groups : int, optional
        Partial E-steps per pass; sums are grouped by it, so that it is a part of the result's identity, and the number
        of workers is not. The default suits the size of the data and of the model.
    threads : int, optional
        Threads that compute in each worker process; by default as many as Dask threads it has.
    cache_bytes : int or str, optional
        Rows that each worker process keeps in memory, decoded, at most: a number, or a text such as "1 GB"; 0 reads
        them anew in each pass. By default, and at most, half of what the run leaves of the worker's memory limit (none
        where it has no limit).
    run : str or path, optional
        Folder, or URL of an object store, that keeps the run. The same call resumes after the last complete pass and
        ends in the bytes of an undisturbed run; with a smaller `tol` or a larger `max_iter` it trains a finished run
        further. Rows that have changed since then, and another start, are refused.
    resume : {"auto", "never", "require"}
        Resume where `run` holds a run and begin one elsewhere; refuse a folder that holds one; or refuse one that does
        not.
    checkpoint_share : float
        Share of the run's time that keeping it in `run` may take; 1 keeps it after every pass.
    progress : callable, optional
        Called with the `IterationRecord` of each pass.
    validation : float or array_like, optional
        Held-out rows, whose free energy `IterationRecord.validation` records: rows in any form that `data` may have, or
        a share of the rows, above 0 and at most 0.5. Rows of a share are left out of the training; which ones follows
        from their numbers and `random_state`. All components are evaluated for each of them. More rows than take
        256 MiB are not held out; of other rows that take more, a sample is evaluated.
    validation_every : int, optional
        Passes of training from one evaluation to the next; by default as many as let evaluations take a twentieth of
        the work.
    patience : int, optional
        Evaluations in a row without a larger free energy that end the training. The model is then that of the best
        evaluation, also if the training has ended otherwise. By default evaluations are recorded and decide nothing.
        A finished run with `patience` is not trained further.
    verbose : int, optional
        By default a fit in the main thread of a terminal or a Jupyter notebook shows how it goes, in a line on the
        standard error stream that is rewritten in place; elsewhere, and with a `progress` function, it prints nothing.
        0 never prints; 1 always does, elsewhere with one line for each pass. Whatever it is, the logger "vmfa_dask"
        gets a message of each pass, at level INFO. A detached run prints nothing; `DetachedRun.result` shows it.
    client : distributed.Client, str or cluster, optional
        A client, or the address of a scheduler or a cluster such as `LocalCluster`, for which a client is opened and
        closed again; by default the current client, or the scheduler for which Dask is configured. A call within a task
        of the cluster leaves its thread to the tasks of the fit.
    scratch : str or path, optional
        Folder through which worker processes exchange parameters, fast and visible to all of them; by default the
        folder `run`, or the temporary folder of this machine (where `run` is a URL and a worker does not see that
        folder, the URL). Not used when the cluster lives in this process.
    worker_timeout : float or str
        Seconds to wait for a first worker, or a text such as "2 minutes". A cluster that scales with its load gets a
        task to grow by.

    Returns
    -------
    Fit or DetachedRun
        A `DetachedRun` with ``detach=True``.

    Raises
    ------
    SchedulerLost
        When the scheduler went away; the message says where the run stands and how to resume.
    KeyboardInterrupt, SystemExit
        At Ctrl-C, and when a signal asks for the end of the process (SIGTERM, SIGHUP) in the main thread and no handler
        is set for it: the last complete pass is kept, and what the fit has put into `scratch` is removed. The message
        (of SIGTERM, in the log) says what is kept or lost; a note of other errors says so too.
    TypeError
        When `data`, `start` or `client` is nothing of the kind, for an asynchronous client, and for an unknown keyword.
    RuntimeError
        When workers have another version of this package, or vectors of different widths; later workers too.
    ValueError
        For settings and data that cannot be trained; the message names argument or chunk, what was found, what is
        expected. Raised before any task where that is possible.
    FileNotFoundError
        When there is no array at `data`.
    OSError
        When `run` or `scratch` cannot be written, or has too little space; its path is named.
    MemoryError
        When a task would not fit the memory limit of a worker; the largest part is named, and what would fit.

    Examples
    --------
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from vmfa_dask import fit_distributed
    >>> rows = np.random.default_rng(0).normal(size=(200, 4))
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     fit = fit_distributed(rows, n_components=2, n_factors=1, max_iter=3, client=client)
    >>> fit.model.n_components, fit.history[-1].phase
    (2, 'final')
    """
    call = checked_call(ClusterKeywords, n_components, keywords, detach)
    options, begin = call.options, call.start
    if options.detach:
        validation_of_driver(options)  # refused before any work
    if options.detach and (options.run is None or options.progress is not None or not is_in_a_store(data)):
        raise ValueError("detach=True: expected run=folder, data in a Zarr store, and no progress function")
    with ending_by_signals(), connected(keywords.get("client")) as connection:
        client = connection.client
        if is_lazy(data):  # its workers write it first
            workers_for(client, options)
        with opened_rows(data, **call.selection, client=client, scratch=options.scratch) as source:
            held_out = held_out_rows(options, call.asked, source)
            rows = training_rows(source, held_out)
            settings = settings_of_fit(call.asked, options.run, rows)
            check_start(begin, settings, rows)
            validation = make_validation(options, call.selection, rows, settings, held_out, client)
            with (
                kept_run(options, settings, rows, begin, validation) as (kept, plan),
                left_to_the_driver(client),
                told_to_clients(str(options.run)) if drives_here() else display_of(options) as observer,
            ):
                projection = projected_bytes(rows, settings, plan)
                if validation is not None:
                    projection["validation"] = validation.projected_bytes(rows, plan)
                cluster = check_cluster(client, projection, options, Advice(rows, settings, plan, options.n_groups))
                if kept is not None and not options.detach:
                    kept.note_processor(cluster.processor)
                if kept is None or not options.detach:
                    show_dashboard(client, observer)
                    with executor_on(cluster, source, settings, plan, kept, observer, validation) as executor:

                        def report(record: IterationRecord) -> None:
                            executor.announce(record.as_dict())
                            show(record, options.progress)

                        begun, note = whole_start(begin), executor.note_state
                        return train(executor, begun, rows.feature_shape, report, kept, observer, validation, note)
                if isinstance(begin, Start):  # written here: a start is too large to travel with a task
                    kept.begin_with(begin)
            assert isinstance(source, ZarrRows)
        return _detached(connection, kept.path, source, call)


def _detached(connection: Connection, run: str, rows: ZarrRows, call: Call) -> DetachedRun:
    """The same call as a task of the cluster; its start is in the folder of the run by now."""
    keywords: Mapping[str, Any] = {
        **call.same,
        "start": BegunStart(describe_start(call.start)["digest"]),
        "array": rows.name,
        "missing_chunks": rows.missing,
        **{name: getattr(call.options, name) for name in _OF_DRIVERS},
        "validation": validation_of_driver(call.options),
        "verbose": 0,  # the terminal of a worker is none of the user's
    }
    future = start_driver(connection.client, run, fit_distributed, rows.url, {**keywords})
    return DetachedRun(run, future, connection.keep())


@naming_keywords(LocalKeywords)
def fit_local(data: Any, *, n_components: int, **keywords: Unpack[LocalKeywords]) -> Fit:
    """Train a mixture of factor analyzers in this process, without Dask.

    From the same store it gives the same bytes as `fit_distributed`. An array in memory has no chunks to align row
    groups with: its sums may be grouped otherwise.

    Parameters
    ----------
    data : array_like of shape (N, ...)
        Rows, as in `fit_distributed`.
    n_components : int
        C, number of components.
    **keywords
        As in `fit_distributed`, without those that are about a cluster: `client`, `scratch`, `worker_timeout` and
        `detach`. `threads` are by default as many as cores are available, and `cache_bytes` are 1 GiB.

    Returns
    -------
    Fit
        The model, and how the training went.

    Raises
    ------
    KeyboardInterrupt, SystemExit, TypeError, ValueError, FileNotFoundError, OSError
        As `fit_distributed`.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import fit_local
    >>> rows = np.random.default_rng(0).normal(size=(200, 4))
    >>> fit = fit_local(rows, n_components=2, n_factors=1, max_iter=3)
    >>> fit.model.predict(rows[:3]).shape
    (3,)
    """
    call = checked_call(LocalKeywords, n_components, keywords)
    options, begin = call.options, call.start
    with ending_by_signals(), opened_rows(data, **call.selection) as source:
        held_out = held_out_rows(options, call.asked, source)
        rows = training_rows(source, held_out)
        settings = settings_of_fit(call.asked, options.run, rows)
        check_start(begin, settings, rows)
        validation = make_validation(options, call.selection, rows, settings, held_out)
        cores = Cores(options.threads or available_cores())
        if isinstance(source, ZarrRows):
            source.cache_bytes = _LOCAL_CACHE_BYTES if options.cache_bytes is None else options.cache_bytes
            source.use_threads(cores.n_threads)
        keeping = kept_run(options, settings, rows, begin, validation)
        with keeping as (kept, plan), display_of(options) as observer, copies_of_rows(settings) as copies:
            if kept is not None:
                kept.note_processor(this_processor())
            observer.kernels_begin()
            compile_ahead(settings, rows.dtype, validation is not None)
            with versions_here(kept, None, rows, settings) as storage:
                executor = SerialExecutor(RunContext(rows, settings, plan, storage, cores, copies), observer)

                def report(record: IterationRecord) -> None:
                    show(record, options.progress)

                return train(executor, whole_start(begin), rows.feature_shape, report, kept, observer, validation)
