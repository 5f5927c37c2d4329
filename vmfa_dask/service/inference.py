"""`infer`: results of a model for rows that do not fit memory, computed on a cluster. May import: all rooms below."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import zarr

from vmfa_dask.apply.inference import Evaluator, rows_per_block
from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.model_rows import check_layout
from vmfa_dask.apply.row_functions import RowFunction, row_function
from vmfa_dask.apply.streaming import open_output, rows_per_write
from vmfa_dask.cluster.bounded_tasks import run_bounded
from vmfa_dask.cluster.clients import connected
from vmfa_dask.cluster.conditions import Conditions
from vmfa_dask.cluster.interrupts import left_to_the_driver
from vmfa_dask.cluster.leases import take_lease
from vmfa_dask.cluster.process_workers import note_worker
from vmfa_dask.cluster.worker_rows import check_visible
from vmfa_dask.cluster.workers import ask, naming_a_lost_scheduler
from vmfa_dask.run.row_source import ArrayRows, RowSource, n_features_of
from vmfa_dask.service.endings import ending_by_signals, raise_with
from vmfa_dask.service.on_cluster import CheckedCluster, check_cluster, workers_for
from vmfa_dask.service.options import Options, make_options
from vmfa_dask.service.row_tasks import Inference, InferenceReference, compute_range, forget, registered
from vmfa_dask.service.sources import opened_rows, spill
from vmfa_dask.store.places import locate
from vmfa_dask.store.results import ResultStore
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.scratch import scratch_folder

# Tasks in flight for each thread: the next one waits on its worker. Tasks for each thread in all, if rows are few.
_IN_FLIGHT, _TASKS_PER_THREAD, _MOST_WRITES = 2, 4, 16


def infer(
    model: MixtureModel | str | os.PathLike[str],
    data: Any,
    method: str = "predict",
    *,
    out: Any,
    client: Any = None,
    array: str | None = None,
    sample_dim: str | None = None,
    missing_chunks: str = "refuse",
    threads: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    worker_timeout: float | str = 60.0,
    **options: Any,
) -> zarr.Array[Any] | zarr.Group:
    """Compute results of a model for the rows of a data set on a Dask cluster.

    Each task reads a range of rows, computes their results, and writes whole chunks of the output; nothing but its
    range travels. The results are those of the method in memory, bit for bit.

    Parameters
    ----------
    model : MixtureModel, str or path
        The model, or where it is saved.
    data : array_like of shape (n, ...)
        Rows, in any form that `fit_distributed` takes.
    method : {"score_samples", "predict", "predict_proba", "transform", "reconstruct"}
        Name of the method of `MixtureModel`.
    out : str, path, zarr.Array or zarr.Group
        As in `MixtureModel.score_samples`: path or URL of an array to create (of a group for `predict_proba` with
        `truncation`), or an open one. All workers must see it. After an interruption the same call continues.
    client : distributed.Client, str or cluster, optional
        As in `fit_distributed`.
    array, sample_dim, missing_chunks
        As in `fit_distributed`.
    threads : int, optional
        Threads that compute in each worker process; by default as many as Dask threads it has.
    scratch : str or path, optional
        Folder through which worker processes get the model, and rows that are in memory; visible to all of them. By
        default the temporary folder of this machine.
    worker_timeout : float or str
        Seconds to wait for a first worker, or a text such as "2 minutes".
    **options
        Options of the method, such as ``truncation=3``.

    Returns
    -------
    zarr.Array or zarr.Group
        The output, complete.

    Raises
    ------
    TypeError
        When an argument is nothing of the kind, and for options that the method does not have.
    ValueError
        When rows have another width or layout than the model or hold NaN or infinity, and as the method.
    FileExistsError
        When something else is stored at `out`, such as results of another model.
    FileNotFoundError
        When there is no model or no array, or a worker does not see what it needs; its path is named.
    RuntimeError
        When workers have another version of this package, or processors that round differently.
    MemoryError
        When a task would not fit the memory limit of a worker.
    SchedulerLost
        When the scheduler went away. What is complete stays.
    KeyboardInterrupt, SystemExit
        At Ctrl-C and SIGTERM, as in `fit_distributed`; the message says how many rows are complete.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from vmfa_dask import MixtureModel, infer
    >>> model = MixtureModel([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
    >>> client = Client(processes=False, dashboard_address="127.0.0.1:0")
    >>> with client, tempfile.TemporaryDirectory() as folder:
    ...     labels = infer(model, [[0.5, -0.5], [8.0, 9.5]], "predict", client=client, out=f"{folder}/labels.zarr")
    ...     labels[:]
    array([0, 1])
    """
    settings = make_options(threads=threads, scratch=scratch, worker_timeout=worker_timeout)
    path = None if isinstance(model, MixtureModel) else locate(model)
    fitted = model if isinstance(model, MixtureModel) else MixtureModel.load(model)
    function = row_function(fitted.mixture, method, options)
    with ending_by_signals("the inference", "before the first task"), connected(client) as connection:
        workers = workers_for(connection.client, settings)
        selection: dict[str, Any] = {"array": array, "sample_dim": sample_dim, "missing_chunks": missing_chunks}
        with opened_rows(data, **selection, client=connection.client, scratch=settings.scratch) as rows:
            _check_rows(fitted, rows)
            output = open_output(out, fitted.mixture, function, rows)
            if output.n_complete == output.n_rows:
                return output.node
            work = _Work(fitted, path, function, rows, output)
            cluster = _checked(connection.client, settings, workers, work)
            with left_to_the_driver(cluster.client), _placed(cluster, work) as reference:
                _run(cluster, reference, work, sum(worker["nthreads"] for worker in workers.values()))
    return output.node


@dataclass(frozen=True)
class _Work:
    """What is computed, as the driver has opened it; `path` is that of a saved model."""

    model: MixtureModel
    path: str | None
    function: RowFunction
    rows: RowSource
    output: ResultStore

    @property
    def rows_per_write(self) -> int:
        """Rows whose results are written together, without what fills up a chunk."""
        return rows_per_write(rows_per_block(self.model.mixture), self.function.row_bytes)


def _check_rows(model: MixtureModel, rows: RowSource) -> None:
    origin = getattr(rows, "origin", None)
    label = origin.label if origin is not None else rows.label if isinstance(rows, ZarrRows) else "data"
    check_layout(label, rows.feature_shape, model.feature_shape)


def _checked(client: Any, settings: Options, workers: Mapping[str, Any], work: _Work) -> CheckedCluster:
    """The cluster, after its checks of versions, processors and memory."""
    model, rows, threads = work.model, work.rows, max(worker["nthreads"] for worker in workers.values())
    block, row_bytes = rows_per_block(model.mixture), n_features_of(rows) * rows.dtype.itemsize
    held = work.output.whole_chunks(work.rows_per_write)
    projection = {
        # Loaded and packed.
        "model": 2 * sum(array.nbytes for array in (model.loadings, model.noise_variances, model.mixture.means)),
        # With their exponentials and posteriors.
        "joints": 4 * 8 * block * model.n_components,
        "rows": threads * (3 * block + (0 if rows.reads_parts else rows.decoded_rows)) * row_bytes,
        "results": 2 * threads * held * work.function.row_bytes,
    }

    def advise(usable: int) -> str:
        return "give each worker fewer threads, or store rows and output in smaller chunks"

    return check_cluster(client, projection, settings, advise)


@contextmanager
def _placed(cluster: CheckedCluster, work: _Work) -> Iterator[InferenceReference]:
    """What tasks need, where they find it: in this process, or in a folder that all processes see."""
    run, function, rows, output = uuid.uuid4().hex[:8], work.function, work.rows, work.output
    if cluster.local:
        inference = Inference(Evaluator(work.model.mixture, cluster.threads), function, rows, output)
        inference.compile()
        with registered(run, inference):
            yield InferenceReference(run, function.method, function.options)
        return
    if output.location is None:
        raise TypeError("out: other processes cannot open this array of zarr; pass its path or URL")
    with scratch_folder(run, cluster.scratch) as folder:
        with naming_a_lost_scheduler(cluster.client):
            blind = sorted(worker for worker, seen in ask(cluster.client, os.path.isdir, folder).items() if not seen)
            cluster.client.run(note_worker, on_error="ignore")
        if blind:
            raise FileNotFoundError(
                f"workers do not see the folder {folder} with the model: {', '.join(blind[:5])}; pass scratch=folder "
                "that all machines share"
            )
        path = work.path or f"{folder}/model.zarr"
        if work.path is None:
            work.model.save(path)
        stored = spill(rows, f"{folder}/rows.zarr") if isinstance(rows, ArrayRows) else rows
        assert isinstance(stored, ZarrRows)
        with naming_a_lost_scheduler(cluster.client):
            check_visible(cluster.client, stored)
        lease = take_lease(cluster.client, run)
        try:
            yield InferenceReference(
                run,
                function.method,
                function.options,
                folder=folder,
                model=path,
                url=stored.url,
                array=stored.name,
                missing=stored.missing,
                origin=stored.origin,
                out=output.location,
                threads=cluster.threads,
                conditions=Conditions.of(cluster.processor, cluster.total_bytes, stored),
            )
        finally:
            lease.release()
            if cluster.client.status == "running":
                cluster.client.run(forget, run, on_error="ignore")


def _run(cluster: CheckedCluster, reference: InferenceReference, work: _Work, n_threads: int) -> None:
    """Compute what is missing: a task for each range, few in flight."""
    rows, output, least = work.rows, work.output, work.rows_per_write
    per_task = min(rows.n_rows // (_TASKS_PER_THREAD * n_threads), _MOST_WRITES * least)
    # Few rows are written in parts of a row block, so that every thread gets some.
    per_task = max(per_task, min(least, rows_per_block(work.model.mixture)))
    if not rows.reads_parts:  # so that few rows are decoded by two tasks
        per_task = max(per_task, rows.decoded_rows)
    calls = ((reference, start, stop) for start, stop in output.missing(per_task))

    def note(call: tuple[Any, ...]) -> None:
        _, start, stop = call
        output.note(start, stop)

    name, most = f"infer-{work.function.method}", _IN_FLIGHT * n_threads
    try:
        run_bounded(cluster.client, name, compute_range, calls, most, note)
    except (KeyboardInterrupt, SystemExit) as error:
        complete = f"{output.n_complete:,} of {output.n_rows:,} rows are complete"
        raise_with(error, f"({complete}); the same call continues", "the inference")
    finally:
        output.save()
