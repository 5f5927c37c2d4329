"""Kernels compiled before they are timed: a tiny fit with the types of the run, under a lock between processes.

Numba keeps compiled code on disk, but processes that write one cache at the same moment can leave an index that points
at another signature's code. The first process compiles and writes, the others wait and read.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from dataclasses import replace
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from vmfa_dask.em.algorithm import Training
from vmfa_dask.em.context import RunContext
from vmfa_dask.em.executor import SerialExecutor
from vmfa_dask.em.plan import make_plan
from vmfa_dask.em.rows import ArrayRows
from vmfa_dask.em.settings import Settings
from vmfa_dask.em.storage import MemoryStorage
from vmfa_dask.em.threads import Cores

logger = logging.getLogger(__name__)

_warm: set[tuple[Any, ...]] = set()
_LOCK_SECONDS = 120.0


def _lock_path() -> str:
    folder = os.environ.get("NUMBA_CACHE_DIR") or tempfile.gettempdir()
    os.makedirs(folder, exist_ok=True)
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return os.path.join(folder, f"vmfa_dask-{user}.lock")


def warm_up(settings: Settings, dtype: np.dtype[Any]) -> float:
    """Compile (or load) every kernel that a run of these types uses; returns the seconds it took.

    A cache folder that cannot be written is no error: then this process compiles for itself.
    """
    kinds = (settings.search, settings.search_every > 1, settings.covariance_type, settings.noise, settings.init_params)
    key = (settings.n_factors, settings.precision, *kinds, dtype.str)
    if key in _warm:
        return 0.0
    start = time.perf_counter()
    try:
        with FileLock(_lock_path(), timeout=_LOCK_SECONDS):
            _tiny_fit(settings, dtype)
    except (OSError, Timeout) as error:
        logger.debug("no lock for the compile cache (%s); compiling in this process", error)
        _tiny_fit(settings, dtype)
    _warm.add(key)
    seconds = time.perf_counter() - start
    logger.info("kernels ready after %.1f s", seconds)
    return seconds


def _tiny_fit(settings: Settings, dtype: np.dtype[Any]) -> None:
    rows = np.random.default_rng(0).integers(0, 100, (64, settings.n_factors + 3)).astype(dtype)
    tiny = replace(
        settings, n_components=4, truncation=2, neighborhood=3, random_candidates=1, max_warmup_iter=1, max_iter=1
    )
    source = ArrayRows(rows)
    # A group of one block and one of several: their moments are summed in arrays of different types.
    plan = replace(make_plan(source, tiny), groups=((0, 16), (16, len(rows))), block_rows=24, tile_rows=24)
    context = RunContext(source, tiny, plan, MemoryStorage(), Cores(1))
    Training(SerialExecutor(context)).run()
