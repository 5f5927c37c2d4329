"""The run inside a worker process: what tasks carry to find it, and how it is made there once.

Tasks carry a `RunReference` of some hundred bytes. A driver that shares its process with the workers registers its
context, so nothing is copied; elsewhere the first task of a run opens the rows by URL and compiles the kernels.
May import: tables, em, store, distributed.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distributed import CancelledError, Client, TimeoutError, Worker, get_worker

from vmfa_dask.cluster.conditions import Conditions
from vmfa_dask.cluster.leases import watch_leases
from vmfa_dask.cluster.queues import go_where_nothing_waits
from vmfa_dask.cluster.warmup import warm_up
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.plan import Plan
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.exchange import exchange_at
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.tables import Origin

logger = logging.getLogger(__name__)

# Runs of this process: those of drivers that live here, until they end, and the few latest ones that tasks have made
# and can make again, for as long as their drivers live. Caches of rows and models are large.
_contexts: dict[str, RunContext] = {}
_made_by_tasks: list[str] = []
_lock = threading.Lock()
_MOST_CONTEXTS = 4


@dataclass(frozen=True)
class RunReference:
    """What a task needs to find or make the context of its run."""

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


def register(reference: RunReference, context: RunContext) -> None:
    """Make the context of a driver known to the tasks that run in its process."""
    with _lock:
        _contexts[reference.run] = context


def forget(run: str) -> None:
    """Drop a run's context and what it caches."""
    with _lock:
        _contexts.pop(run, None)
        if run not in _made_by_tasks:
            return
        _made_by_tasks.remove(run)
    gc.collect()  # rows and what decodes them know each other; few objects, so that Python would not look soon


def forget_everywhere(client: Client, run: str) -> None:
    """Let worker processes drop a run at once: its rows and models would take memory from the next one.

    Those that cannot be asked now find out by its lease.
    """
    if client.status != "running":
        return
    try:
        client.run(forget, run, on_error="ignore")
    except (OSError, TimeoutError, CancelledError) as error:  # whatever ended the run matters more
        logger.info("workers could not be asked to forget run %s: %s", run, error)


def threads_of_process(scheduler: str) -> int:
    """Dask threads of all workers of a cluster in this process: the cores that the user gave to them."""
    here = [w for w in list(Worker._instances) if w.status.name in ("running", "paused")]
    return max(1, sum(w.state.nthreads for w in here if w.scheduler.address == scheduler))


def context_of(reference: RunReference) -> RunContext:
    """The context of a run in this process; made on first use."""
    with _lock:
        context, made_here = _contexts.get(reference.run), reference.run in _made_by_tasks
    if context is not None:
        if made_here:
            watch_leases(get_worker(), _runs_of_tasks, forget)
        return context
    if reference.url is None or reference.folder is None:
        raise RuntimeError(
            f"run {reference.run} lives in the memory of its driver, and this worker "
            f"({get_worker().address}) is another process"
        )
    conditions, cache_bytes = reference.conditions, reference.cache_bytes
    if conditions is not None:  # this worker may have come during the run
        room = conditions.check_worker(reference.folder)
        cache_bytes = cache_bytes if room is None else min(cache_bytes, room)
    try:
        rows = ZarrRows(reference.url, reference.array, cache_bytes, reference.missing, reference.origin)
    except FileNotFoundError as error:  # on a worker that has come during the run: the others were asked before
        raise FileNotFoundError(f"worker {get_worker().address}: {error}") from error
    if conditions is not None:
        conditions.check_rows(rows)
    threads = reference.threads or threads_of_process(get_worker().scheduler.address)
    cores = Cores(threads, go_where_nothing_waits)
    rows.use_threads(cores.n_threads)
    warm_up(reference.settings, rows.dtype)
    context = RunContext(rows, reference.settings, reference.plan, exchange_at(reference.folder), cores)
    watch_leases(get_worker(), _runs_of_tasks, forget)
    return _keep(reference.run, context)


def _runs_of_tasks() -> list[str]:
    """Runs of this process whose drivers live elsewhere."""
    with _lock:
        return list(_made_by_tasks)


def _keep(run: str, context: RunContext) -> RunContext:
    """The context of a run that other tasks find from now on; another one than the given one if it was there first."""
    with _lock:
        if run not in _contexts:
            _contexts[run] = context
            _made_by_tasks.append(run)
            while len(_made_by_tasks) > _MOST_CONTEXTS:
                del _contexts[_made_by_tasks.pop(0)]
        return _contexts[run]


def run_task(reference: RunReference, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run one task of `run.tasks` in this process."""
    return function(context_of(reference), *arguments)
