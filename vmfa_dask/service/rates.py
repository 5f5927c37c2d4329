"""Rates of this machine for a planned run, from short fits on one thread and on all.

May import: run, cluster, service, numpy.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.cluster.task_rate import seconds_of_task
from vmfa_dask.run.costs import Rate, Rates, units_of_pass
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.run.row_source import ArrayRows, RowSource, n_features_of
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import available_cores
from vmfa_dask.service.fit import fit_local

# Seconds of log-joints that a pass of a measuring fit takes on one thread, about, and what it may hold.
_SECONDS = 0.8
_SMALLEST, _LARGEST, _MOST_BYTES = 2_000, 200_000, 2**28
_MOST_COMPONENTS, _ROWS_PER_COMPONENT = 1_000, 40
# Candidates of a row, and seconds of one beside its products: rough values, which size the measuring fit alone.
_CANDIDATES, _FLOP_PER_SECOND, _SECONDS_PER_CANDIDATE = 40, 5e10, 5e-8
# Passes that are measured, after one in which the neighbours are still random.
_WARMUP, _TRAINING = 3, 3
_COPIED_BYTES, _WRITTEN_BYTES = 2**27, 2**26
# Settings that decide how long a pass takes; others are those of the measuring fit.
_KEPT = ("n_factors", "covariance_type", "noise", "truncation", "neighborhood", "search_every", "screening",
         "random_candidates", "similarity", "precision", "standardize")  # fmt: skip


def measure_rates(rows: RowSource, settings: Settings, sample: NDArray[Any] | None = None) -> Rates:
    """Measure what a pass of such a run takes on this machine, in some ten seconds.

    Parameters
    ----------
    rows : RowSource
        Width and dtype of the rows.
    settings : Settings
        Of the planned run.
    sample : (n, D) array, optional
        Rows to measure with; by default rows of a few groups, drawn at random.

    Returns
    -------
    Rates
        For this width, dtype and number of factors.
    """
    d, n_cores = n_features_of(rows), available_cores()
    n_rows = min(rows.n_rows, _n_rows(d, rows.dtype.itemsize, settings))
    table = _synthetic(n_rows, d, rows.dtype) if sample is None else sample[:n_rows]
    n_components = max(1, min(settings.n_components, _MOST_COMPONENTS, len(table) // _ROWS_PER_COMPONENT))
    one = _settled(table, n_components, settings, 1)
    several = _settled(table, n_components, settings, n_cores) if n_cores > 1 else one
    joints = float(np.mean([record.joints_per_row for record in several]))
    plan = make_plan(ArrayRows(table), _smaller(settings, n_components))
    units = units_of_pass(len(table), joints, n_components, len(plan.groups))
    slow, fast = _seconds_by_phase(one), _seconds_by_phase(several)
    phases = {name: _rate(slow[name], fast[name], n_cores, units[name]) for name in units}
    return Rates(phases, joints, memory_bandwidth(), scratch_bandwidth(), seconds_of_task())


def _n_rows(n_features: int, itemsize: int, settings: Settings) -> int:
    joint = (2 * settings.n_factors + 4) * n_features / _FLOP_PER_SECOND + _SECONDS_PER_CANDIDATE
    rows = int(_SECONDS / (_CANDIDATES * joint))
    return max(_SMALLEST, min(rows, _LARGEST, _MOST_BYTES // (n_features * itemsize)))


def _synthetic(n_rows: int, n_features: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rows of 64 groups that overlap, in the range of whole numbers of the dtype where it is one of these."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(64, n_features)).astype(np.float32)
    rows = centers[rng.integers(0, 64, n_rows)]
    rows += rng.normal(size=(n_rows, 4)).astype(np.float32) @ rng.normal(size=(4, n_features)).astype(np.float32)
    rows += rng.normal(size=rows.shape).astype(np.float32)
    if dtype.kind in "iu":
        rows = 60 + 10 * rows
        return rows.clip(0, 127).astype(dtype)
    return rows.astype(dtype)


def _smaller(settings: Settings, n_components: int) -> Settings:
    return Settings(**_measured(settings, n_components))


def _measured(settings: Settings, n_components: int) -> dict[str, Any]:
    kept = {field.name: getattr(settings, field.name) for field in fields(Settings) if field.name in _KEPT}
    kept["truncation"] = min(settings.truncation, n_components)
    limits = {"max_warmup_iter": _WARMUP, "max_iter": _TRAINING, "tol": 0.0, "warmup_tol": 0.0}
    return {**kept, **limits, "search": settings.search, "init_params": "uniform", "n_components": n_components}


def _settled(
    table: NDArray[Any], n_components: int, settings: Settings, threads: int
) -> list[IterationRecord]:
    """Records of the training passes of a short fit."""
    fit = fit_local(table, verbose=0, threads=threads, **_measured(settings, n_components))
    return [record for record in fit.history if record.phase == "training"][1:]


def _seconds_by_phase(records: list[IterationRecord]) -> Mapping[str, float]:
    """The shortest of each phase, as other work on the machine only ever adds to them."""
    names = dict.fromkeys(name for record in records for name in record.seconds_per_phase)
    seconds = {name: min(record.seconds_per_phase.get(name, 0.0) for record in records) for name in names}
    rest = min(record.seconds - sum(record.seconds_per_phase.values()) for record in records)
    every = dict.fromkeys(units_of_pass(1, 1, 1, 1), 0.0)
    return {**every, **seconds, "rest": max(0.0, rest)}


def _rate(one: float, several: float, n_threads: int, units: float) -> Rate:
    """Solve ``one = alone + shared`` and ``several = alone + shared / n_threads``; neither part is below zero."""
    if n_threads == 1:
        return Rate(0.0, one / units)
    shared = min(one, max(0.0, (one - several) / (1 - 1 / n_threads)))
    return Rate((one - shared) / units, shared / units)


def memory_bandwidth() -> float:
    """Rate at which this process copies an array that no cache holds.

    Returns
    -------
    float
        Bytes per second, read and written.
    """
    source = np.ones(_COPIED_BYTES // 8)
    target = np.empty_like(source)
    best = np.inf
    for _ in range(4):
        begin = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - begin)
    return 2 * source.nbytes / best


def scratch_bandwidth(folder: str | None = None) -> float:
    """Rate at which a file in the temporary folder is written and read again.

    Parameters
    ----------
    folder : str, optional
        Another folder.

    Returns
    -------
    float
        Bytes per second.
    """
    data = np.random.default_rng(0).integers(0, 256, _WRITTEN_BYTES, np.uint8)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary) / "rows"
        begin = time.perf_counter()
        data.tofile(path)
        np.fromfile(path, np.uint8)
        return data.nbytes / (time.perf_counter() - begin)
