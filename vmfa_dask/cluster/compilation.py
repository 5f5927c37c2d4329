"""Compiling kernels ahead of a run: a tiny fit with the types of the run, under a lock between processes.

Numba keeps compiled code on disk, but processes that write one cache at the same moment can leave an index that points
at another signature's code. So the first process compiles and writes, and the others wait and read.
May import: runtime, kernels, run, store, filelock, numpy.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from vmfa_dask.kernels.compile import cache_folder
from vmfa_dask.kernels.projections import N_PARTS, RUN_FEATURES
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.storage import MemoryStorage
from vmfa_dask.run.validation import Validation
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.locks import held_lock

logger = logging.getLogger(__name__)

_compiled: set[tuple[Any, ...]] = set()
_LOCK = "vmfa_dask.lock"
# Compiling everything takes half a minute; on slow cores that others use too, up to a few minutes.
_LOCK_SECONDS, _SILENT_SECONDS = 120.0, 1.0


def _lock_path() -> str | None:
    """Beside what the lock protects, so that whoever may write one may write the other; None without a cache."""
    folder = cache_folder()
    return None if folder is None else os.path.join(folder, _LOCK)


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Let no other process that uses this cache compile during the enclosed lines, unless it takes too long.

    Yields
    ------
    None
    """
    lock = _wait_for_lock()
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _wait_for_lock() -> FileLock | None:
    path = _lock_path()
    if path is None:  # each process compiles for itself
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            return held_lock(path, _SILENT_SECONDS)
        except Timeout:
            logger.info("%s: another process compiles kernels; waiting for it, %.0f s at most", path, _LOCK_SECONDS)
        return held_lock(path, max(0.0, _LOCK_SECONDS - _SILENT_SECONDS))
    except Timeout:
        logger.warning("%s: held by another process for %.0f s; compiling without it", path, _LOCK_SECONDS)
    except OSError as error:
        logger.info("%s: cannot be locked (%s); compiling without it", path, error)
    return None


def compile_ahead(settings: Settings, dtype: np.dtype[Any], validates: bool = False) -> float:
    """Compile (or load) every kernel that a run of these types uses.

    A cache folder that cannot be written or locked is no error: then this process compiles for itself.

    Parameters
    ----------
    settings : Settings
        Of the run.
    dtype : dtype
        In which its rows are read.
    validates : bool
        Whether held-out rows are evaluated, in the same dtype.

    Returns
    -------
    float
        Seconds it took; 0 where this process has done so before.
    """
    kinds = (settings.search, settings.search_every > 1, settings.covariance_type, settings.noise, settings.init_params)
    numbers = (settings.n_factors, settings.precision, settings.starts_from_cells, settings.screening)
    key = (*numbers, *kinds, dtype.str, validates)
    if key in _compiled:
        return 0.0
    start = time.perf_counter()
    with compiling_alone():
        _tiny_fit(settings, dtype, validates)
    _compiled.add(key)
    seconds = time.perf_counter() - start
    logger.info("kernels ready after %.1f s", seconds)
    return seconds


def _tiny_fit(settings: Settings, dtype: np.dtype[Any], validates: bool) -> None:
    width = N_PARTS * RUN_FEATURES if settings.screening else settings.n_factors + 3
    rows = np.random.default_rng(0).integers(0, 100, (64, width)).astype(dtype)
    tiny = replace(
        settings, n_components=4, truncation=2, neighborhood=3, random_candidates=1, max_warmup_iter=1, max_iter=1
    )
    source = ArrayRows(rows)
    # A group of one block and one of several: their moments are summed in arrays of different types.
    plan = replace(make_plan(source, tiny), groups=((0, 16), (16, len(rows))), block_rows=24, tile_rows=24)
    context = RunContext(source, tiny, plan, MemoryStorage(), Cores(1))
    validation = Validation(rows, 1, None) if validates else None
    Training(SerialExecutor(context), validation=validation).run()
