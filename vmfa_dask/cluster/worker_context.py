"""The run inside a worker process: what tasks carry to find it, and how it is opened there once.

Tasks carry a `RunReference` of some hundred bytes. A driver that shares its process with the workers registers its
context, so that nothing is copied. Elsewhere the first task of a run opens the rows by URL and compiles the kernels.
May import: tables, runtime, run, store, cluster, distributed.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distributed import CancelledError, Client, TimeoutError, get_worker

from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.cluster.conditions import Conditions
from vmfa_dask.cluster.leases import watch_leases
from vmfa_dask.cluster.process_workers import note_worker, threads_here
from vmfa_dask.cluster.queues import go_where_nothing_waits
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.held_out import HeldOutRows, training_rows
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.exchange import exchange_at
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.tables import Origin

logger = logging.getLogger(__name__)

# Runs of this process: those of drivers that live here, until they end, and the latest few that tasks have opened, for
# as long as their drivers live. Tasks can open them again; caches of rows and models are large.
_contexts: dict[str, RunContext] = {}
_made_by_tasks: list[str] = []
_lock = threading.Lock()
_MOST_CONTEXTS = 4


@dataclass(frozen=True)
class RunReference:
    """What a task needs to find or open the context of its run.

    Parameters
    ----------
    run : str
        Name of the run, unique on its cluster.
    settings : Settings
        Of the run.
    plan : Plan
        Of the run.
    folder : str or None
        Path or URL through which processes exchange versions; None where all live in one process.
    url : str or None
        Path or URL of the rows; None where they are in memory.
    array : str or None
        Name of their array in a group.
    missing : str
        "refuse" or "fill" chunks that are not stored.
    cache_bytes : int
        Decoded rows that a process keeps in memory, at most.
    threads : int or None
        Threads that compute in a process; None for as many as Dask threads it has.
    origin : Origin or None
        What rows are called in messages; None for their path or URL.
    conditions : Conditions or None
        What a worker must meet; None where nothing is checked.
    held_out : HeldOutRows or None
        Rows that are left out of the training.
    validates : bool
        Whether held-out rows are evaluated, which takes kernels of its own.
    """

    run: str
    settings: Settings
    plan: Plan
    folder: str | None
    url: str | None
    array: str | None
    missing: str
    cache_bytes: int
    threads: int | None
    origin: Origin | None = None
    conditions: Conditions | None = None
    held_out: HeldOutRows | None = None
    validates: bool = False


def register(reference: RunReference, context: RunContext) -> None:
    """Let the tasks that run in the driver's process find its context.

    Parameters
    ----------
    reference : RunReference
        What the tasks carry.
    context : RunContext
        What they find, until `forget`.
    """
    with _lock:
        _contexts[reference.run] = context


def forget(run: str) -> None:
    """Drop the context of a run and its caches from this process.

    Parameters
    ----------
    run : str
        Name of the run; nothing happens where this process does not hold it.
    """
    with _lock:
        _contexts.pop(run, None)
        if run not in _made_by_tasks:
            return
        _made_by_tasks.remove(run)
    gc.collect()  # rows and their decoders refer to each other; so few objects that Python would not collect them soon


def forget_everywhere(client: Client, run: str) -> None:
    """Let worker processes drop a run at once: its rows and models would take memory from the next one.

    Workers that cannot be asked find out by the run's lease.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run : str
        Name of the run.
    """
    if client.status != "running":
        return
    try:
        client.run(forget, run, on_error="ignore")
    except (OSError, TimeoutError, CancelledError) as error:  # the cause of the run's end matters more
        logger.info("workers could not be asked to forget run %s: %s", run, error)


def context_of(reference: RunReference) -> RunContext:
    """The context of a run in this process; the first task opens it.

    Parameters
    ----------
    reference : RunReference
        What the task carries.

    Returns
    -------
    RunContext
        The same object for all tasks of the run in this process.

    Raises
    ------
    RuntimeError, FileNotFoundError, MemoryError
        When this worker cannot work on the run; the message names the worker.
    """
    with _lock:
        context, made_here = _contexts.get(reference.run), reference.run in _made_by_tasks
    if context is not None:
        if made_here:
            note_worker(get_worker())
            watch_leases(get_worker(), _runs_of_tasks, forget)
        return context
    context = _open_context(reference)
    watch_leases(get_worker(), _runs_of_tasks, forget)
    return _keep(reference.run, context)


def _open_context(reference: RunReference) -> RunContext:
    worker = get_worker()
    if reference.url is None or reference.folder is None:
        raise RuntimeError(
            f"run {reference.run} lives in the memory of its driver, and this worker "
            f"({worker.address}) is another process"
        )
    note_worker(worker)
    conditions, cache_bytes = reference.conditions, reference.cache_bytes
    if conditions is not None:  # this worker may have joined during the run
        room = conditions.check_worker(reference.folder)
        cache_bytes = cache_bytes if room is None else min(cache_bytes, room)
    try:
        rows = ZarrRows(reference.url, reference.array, cache_bytes, reference.missing, reference.origin)
    except FileNotFoundError as error:  # on a worker that has joined during the run: the others were asked before
        raise FileNotFoundError(f"worker {worker.address}: {error}") from error
    if conditions is not None:
        conditions.check_rows(rows)
    cores = Cores(reference.threads or threads_here(worker.scheduler.address), go_where_nothing_waits)
    rows.use_threads(cores.n_threads)
    compile_ahead(reference.settings, rows.dtype, reference.validates)
    kept = training_rows(rows, reference.held_out)
    return RunContext(kept, reference.settings, reference.plan, exchange_at(reference.folder), cores)


def _runs_of_tasks() -> list[str]:
    """Runs of this process whose drivers live elsewhere."""
    with _lock:
        return list(_made_by_tasks)


def _keep(run: str, context: RunContext) -> RunContext:
    """Keep a context for other tasks; returns the one that another task has kept, if it was faster."""
    with _lock:
        if run not in _contexts:
            _contexts[run] = context
            _made_by_tasks.append(run)
            while len(_made_by_tasks) > _MOST_CONTEXTS:
                del _contexts[_made_by_tasks.pop(0)]
        return _contexts[run]


def run_task(reference: RunReference, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run one task in this process.

    Parameters
    ----------
    reference : RunReference
        The run.
    function : callable
        Takes the context of the run, then `arguments`.
    *arguments : object
        Of the task.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    Exception
        As `context_of`, and what the function raises.
    """
    return function(context_of(reference), *arguments)
