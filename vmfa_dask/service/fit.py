"""`fit_distributed` and `fit_local`: from data to a fitted model. May import: all rooms below."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.cluster.context import RunReference, forget, register, threads_of_process
from vmfa_dask.cluster.executor import TOPIC, DaskExecutor, SchedulerLost, shares_process, wait_for_workers
from vmfa_dask.cluster.memory import check_memory, smallest_limit
from vmfa_dask.cluster.warmup import warm_up
from vmfa_dask.em.algorithm import Training
from vmfa_dask.em.context import RunContext
from vmfa_dask.em.executor import Executor, SerialExecutor
from vmfa_dask.em.plan import make_plan, projected_bytes
from vmfa_dask.em.records import IterationRecord
from vmfa_dask.em.rows import ArrayRows, n_features_of
from vmfa_dask.em.seeding import Start
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.storage import MemoryStorage, Storage
from vmfa_dask.em.tasks import load_mixture
from vmfa_dask.em.threads import Cores, available_cores
from vmfa_dask.service.checkpoints import KeptRun, kept_run
from vmfa_dask.service.inputs import make_settings, open_rows, spill
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.storage import ZarrStorage

logger = logging.getLogger("vmfa_dask")

Progress = Callable[[IterationRecord], None]


@dataclass(frozen=True)
class Fit:
    """What a fit returns.

    Parameters
    ----------
    model : the fitted mixture, without components that were dropped
    history : one record per pass over the rows, the last one an evaluation of the returned parameters
    converged : whether training ended by its tolerance, not by `max_iter`
    settings : the numbers of the run
    """

    model: MixtureModel
    history: tuple[IterationRecord, ...]
    converged: bool
    settings: Settings

    @property
    def dropped(self) -> dict[int, str]:
        """Components that are not in the model: number in the run, and why."""
        return {
            c: f"no row kept it after iteration {record.iteration}" for record in self.history for c in record.dropped
        }


def fit_distributed(
    data: Any,
    *,
    n_components: int,
    n_factors: int = 5,
    client: Any = None,
    array: str | None = None,
    start: Start | None = None,
    n_groups: int | None = None,
    threads: int | None = None,
    run: str | None = None,
    resume: str = "auto",
    scratch: str | None = None,
    worker_timeout: float = 60.0,
    progress: Progress | None = None,
    **settings: Any,
) -> Fit:
    """Train a mixture of factor analyzers on a Dask cluster.

    Parameters
    ----------
    data : path or URL of a Zarr array (N, ...), or a NumPy array; any integer or float dtype. Every axis but the first
        is flattened, in C order.
    n_components, n_factors : C and H
    client : `distributed.Client`; by default the current one
    array : name of the array when `data` is a Zarr group
    start : a start given whole (parameters, neighbour graph, kept components) in place of seeding
    n_groups : partial E-steps per iteration; part of the result's identity (sums are grouped by it), so that a run
        gives the same bytes on any number of workers. The default suits the size of the data and of the model.
    threads : threads that compute in each worker process; by default as many as Dask threads it has
    run : folder that keeps the run (driver and workers must see it): its settings, its records, and what is needed to
        go on after the last complete pass. The same call with the same folder goes on from there and ends in the bytes
        of an undisturbed run; with a smaller `tol` or a larger `max_iter` it trains a finished run further.
    resume : "auto" goes on where `run` holds a run and begins one elsewhere, "never" refuses a folder that holds one,
        "require" refuses one that does not
    scratch : without `run`, the folder for a temporary one. Not used when the cluster lives in this process.
    worker_timeout : seconds to wait for a first worker
    progress : called with the record of each iteration
    **settings : further numbers of the run, see `Settings`

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        For settings and data that cannot be trained; the message names argument or chunk, what was found, what is
        expected. Raised before any task where that is possible.
    FileNotFoundError
        When there is no array at `data`.
    MemoryError
        When a task would not fit the memory limit of a worker.
    """
    from distributed import get_client

    numbers = make_settings(n_components=n_components, n_factors=n_factors, **settings)
    rows = open_rows(data, array)
    numbers.check_against(rows.n_rows, n_features_of(rows))
    plan = make_plan(rows, numbers, n_groups)
    with kept_run(run, resume, numbers, plan, rows) as kept:
        client = client if client is not None else get_client()
        workers = wait_for_workers(client, worker_timeout)
        cache = check_memory(projected_bytes(rows, numbers, plan), smallest_limit(workers))
        local, name = shares_process(client, workers), uuid.uuid4().hex[:8]
        with _folder_for_versions(kept, local, scratch, name) as folder:
            if folder is not None and isinstance(rows, ArrayRows):
                rows = spill(rows, os.path.join(folder, "rows.zarr"))
            url, member = (rows.url, rows.name) if isinstance(rows, ZarrRows) else (None, None)
            reference = RunReference(name, numbers, plan, folder, url, member, cache, threads)
            storage: Storage = MemoryStorage() if folder is None else ZarrStorage(folder)
            if local:
                if isinstance(rows, ZarrRows):
                    rows.cache_bytes = cache
                warm_up(numbers, rows.dtype)
                register(reference, RunContext(rows, numbers, plan, storage, Cores(threads or threads_of_process())))
            try:

                def report(record: IterationRecord) -> None:
                    client.log_event(TOPIC, {"run": name, **record.as_dict()})
                    _report(record, progress)

                return _train(DaskExecutor(client, reference, storage), numbers, start, report, kept, storage)
            finally:
                forget(name)


@contextmanager
def _folder_for_versions(kept: KeptRun | None, local: bool, scratch: str | None, name: str) -> Iterator[str | None]:
    """Folder through which processes share versions: none in one process, the run's own, or a temporary one."""
    if local:
        yield None
    elif kept is not None:
        yield kept.versions
    else:
        folder = tempfile.mkdtemp(prefix=f"vmfa-{name}-", dir=scratch)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def fit_local(
    data: Any,
    *,
    n_components: int,
    n_factors: int = 5,
    array: str | None = None,
    start: Start | None = None,
    n_groups: int | None = None,
    threads: int | None = None,
    run: str | None = None,
    resume: str = "auto",
    cache_bytes: int = 2**30,
    progress: Progress | None = None,
    **settings: Any,
) -> Fit:
    """Train in this process without Dask; parameters as `fit_distributed`.

    From the same store it gives the same bytes as `fit_distributed`. (An array in memory has no chunks to align groups
    of rows with: its sums may be cut elsewhere.) Decoded rows of a store are kept in memory up to `cache_bytes`.
    """
    numbers = make_settings(n_components=n_components, n_factors=n_factors, **settings)
    rows = open_rows(data, array)
    numbers.check_against(rows.n_rows, n_features_of(rows))
    if isinstance(rows, ZarrRows):
        rows.cache_bytes = cache_bytes
    plan = make_plan(rows, numbers, n_groups)
    with kept_run(run, resume, numbers, plan, rows) as kept:
        warm_up(numbers, rows.dtype)
        storage = MemoryStorage()
        context = RunContext(rows, numbers, plan, storage, Cores(threads or available_cores()))
        executor = SerialExecutor(context)
        return _train(executor, numbers, start, lambda record: _report(record, progress), kept, storage)


def _report(record: IterationRecord, progress: Progress | None) -> None:
    logger.info("%s", record.line())
    if progress is not None:
        progress(record)


def _what_is_left(training: Training, kept: KeptRun | None) -> str:
    """What a broken run leaves, and how to go on, for an error message."""
    done = training.last_record
    where = f"after pass {done.iteration} ({done.phase})" if done else "before the first pass was complete"
    if kept is None:
        return f"{where}; nothing was kept: pass run='folder' to keep runs"
    return f"{where}; the run is kept in {kept.path}: the same call with run={kept.path!r} goes on from there"


def _train(
    executor: Executor,
    settings: Settings,
    start: Start | None,
    report: Progress,
    kept: KeptRun | None,
    storage: Storage,
) -> Fit:
    training = Training(executor, report, kept.keep if kept else lambda state: None)
    try:
        state = training.run(start, kept.attach(storage) if kept else None)
    except SchedulerLost as error:
        raise SchedulerLost(f"{error} {_what_is_left(training, kept)}") from error
    if state.n_distinct_seeds < settings.n_components:
        warnings.warn(
            f"only {state.n_distinct_seeds} of n_components={settings.n_components} seeds are distinct rows: "
            "the data has fewer distinct rows than components, or nearly so",
            stacklevel=3,
        )
    mixture = executor.results([executor.submit("load-model", 0, load_mixture, state.parameters)])[0]
    return Fit(MixtureModel.of(mixture), state.records, state.converged, settings)
