"""Inference inside a worker process: a task computes a range of rows and writes it to the output.

Tasks carry an `InferenceReference` of some hundred bytes. The first one in a process loads the model and opens rows and
output; a driver that shares its process with the workers registers them.
May import: tables, runtime, run, store, cluster, apply, service, numpy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.row_functions import RowFunction, row_function
from vmfa_dask.apply.streaming import write_range
from vmfa_dask.cluster.compilation import compiling_alone
from vmfa_dask.cluster.conditions import Conditions
from vmfa_dask.cluster.worker_here import watch_runs, worker_here
from vmfa_dask.em.rows import read_only
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.store.outputs import results_at
from vmfa_dask.store.results import ResultStore
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.tables import Origin

_WATCH = "vmfa-dask-inference-leases"


@dataclass(frozen=True)
class InferenceReference:
    """What a task needs to find or open what it works with.

    Parameters
    ----------
    run : str
        Name of this inference, unique on its cluster.
    method : str
        Name of the method of `MixtureModel`.
    options : mapping
        Its options.
    folder : str or None
        Folder that all processes see, with the saved model; None where all live in one process.
    model : str
        Path or URL of the model.
    url : str
        Path or URL of the rows.
    array : str or None
        Name of their array in a group.
    missing : str
        "refuse" or "fill" chunks that are not stored.
    origin : Origin or None
        What rows are called in messages; None for their path or URL.
    out : str
        Path or URL of the output.
    threads : int or None
        Threads that compute in a process; None for as many as Dask threads it has.
    conditions : Conditions or None
        What a worker must meet.
    """

    run: str
    method: str
    options: Mapping[str, Any]
    folder: str | None = None
    model: str = ""
    url: str = ""
    array: str | None = None
    missing: str = "refuse"
    origin: Origin | None = None
    out: str = ""
    threads: int | None = None
    conditions: Conditions | None = None


@dataclass(frozen=True)
class Inference:
    """What the tasks of one inference share in a process.

    Parameters
    ----------
    evaluator : Evaluator
        Of the model.
    function : RowFunction
        What is computed.
    rows : RowSource
        Of which rows.
    output : ResultStore
        Is written to.
    """

    evaluator: Evaluator
    function: RowFunction
    rows: RowSource
    output: ResultStore

    def compile(self) -> None:
        """Compile the kernels while no other process does."""
        with compiling_alone():
            block = read_only(np.zeros((2, n_features_of(self.rows)), self.rows.dtype))
            self.function.of_block(self.evaluator, block)


_opened: dict[str, Inference] = {}
_of_tasks: set[str] = set()
_opening = threading.Lock()


@contextmanager
def registered(run: str, inference: Inference) -> Iterator[None]:
    """Let tasks in this process find what their driver has opened, for the enclosed lines.

    Parameters
    ----------
    run : str
        Name of the inference.
    inference : Inference
        What they find.
    """
    _opened[run] = inference
    try:
        yield
    finally:
        forget(run)


def forget(run: str) -> None:
    """Drop the model, rows and output of an inference from this process.

    Parameters
    ----------
    run : str
        Its name; nothing happens where this process does not hold it.
    """
    _opened.pop(run, None)
    _of_tasks.discard(run)


def compute_range(reference: InferenceReference, start: int, stop: int) -> None:
    """Compute the results of a range of rows and write them to the output: a task.

    Parameters
    ----------
    reference : InferenceReference
        What to compute, and where.
    start, stop : int
        The range, of whole chunks of the output.

    Raises
    ------
    RuntimeError, FileNotFoundError, MemoryError
        When this worker cannot work on it; the message names the worker.
    ValueError
        At a row that holds NaN or infinity.
    OSError
        When rows cannot be read or results not be written.
    """
    inference = _inference_of(reference)
    write_range(inference.evaluator, inference.function, inference.rows, inference.output, start, stop)


def _inference_of(reference: InferenceReference) -> Inference:
    with _opening:  # one task at a time, as a second model would take as much memory again
        if reference.run not in _opened:
            _opened[reference.run] = _open(reference)
            _of_tasks.add(reference.run)
        return _opened[reference.run]


def _open(reference: InferenceReference) -> Inference:
    address, n_threads = worker_here()
    if reference.folder is None:
        raise RuntimeError(
            f"inference {reference.run} lives in the memory of its driver, and this worker ({address}) is "
            "another process"
        )
    if reference.conditions is not None:  # this worker may have joined later
        reference.conditions.check_worker(reference.folder)
    try:
        model = MixtureModel.load(reference.model)
        rows = ZarrRows(reference.url, reference.array, 0, reference.missing, reference.origin)
        function = row_function(model.mixture, reference.method, reference.options)
        output = results_at(reference.out, function.columns)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"worker {address}: {error}") from error
    if reference.conditions is not None:
        reference.conditions.check_rows(rows)
    n_threads = reference.threads or n_threads
    rows.use_threads(n_threads)
    inference = Inference(Evaluator(model.mixture, n_threads), function, rows, output)
    inference.compile()
    watch_runs(lambda: list(_of_tasks), forget, _WATCH)
    return inference
