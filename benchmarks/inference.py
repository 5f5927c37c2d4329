"""Labels of rows in a store, compared with the E-step that evaluates every component for the same rows."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.fits import temporary_folder
from benchmarks.report import Report
from benchmarks.streaming import make_store
from vmfa_dask import MixtureModel
from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.em.rows import working_rows
from vmfa_dask.run.row_source import read_ahead
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.values import Mixture

_N_FEATURES, _TRUNCATION = 3072, 3


def _mixture(n_components: int, n_factors: int) -> Mixture:
    rng = np.random.default_rng(0)
    return Mixture(
        np.full(n_components, 1 / n_components),
        rng.uniform(90, 160, (n_components, _N_FEATURES)).astype(np.float32),
        rng.normal(0, 9, (n_components, n_factors, _N_FEATURES)).astype(np.float32),
        rng.uniform(200, 600, (n_components, _N_FEATURES)).astype(np.float32),
    )


def _e_step(url: str, mixture: Mixture, cores: Cores) -> float:
    """Rows per second of an exhaustive E-step without sums, in row blocks of the size that a fit would take."""
    rows, packed, buffers = ZarrRows(url), pack_mixture(mixture, cores), BufferPool()
    rows.use_threads(cores.n_threads)
    begin = time.perf_counter()
    for _, block in read_ahead(rows, 0, rows.n_rows, 2048):
        working = working_rows(block, mixture.offset, "float32")
        evaluate_exhaustively(working, packed, _TRUNCATION, cores, buffers, Stopwatch())
    return rows.n_rows / (time.perf_counter() - begin)


def _speed(model: MixtureModel, url: str, method: str, out: Path | None) -> float:
    """Rows per second of a method of a model that has been packed."""
    begin = time.perf_counter()
    results = getattr(model, method)(url, **({} if out is None else {"out": out}))
    return int(results.shape[0]) / (time.perf_counter() - begin)


def run(report: Report, quick: bool = False) -> None:
    """Measure inference on a store.

    Parameters
    ----------
    report : Report
        Collects the checks.
    quick : bool
        Tiny sizes.
    """
    n_components, n_bytes, rounds = (8, 6e7, 1) if quick else (100, 6e7, 5)
    mixture, cores = _mixture(n_components, 5), Cores(available_cores())
    model = MixtureModel.of(mixture)
    with temporary_folder() as folder:
        url = make_store(Path(folder) / "rows.zarr", n_bytes, 256, None)
        model.predict(url)  # compiles, and packs the model
        model.reconstruct(url)
        print(f"inference, {cores.n_threads} threads, C={n_components}, H=5, D={_N_FEATURES}, uint8")
        ratios: dict[str, list[float]] = {"memory": [], "a store": []}
        for k in range(rounds):
            for kind, out in (("memory", None), ("a store", Path(folder) / f"{k}.zarr")):
                # The speed of a machine that others use changes within seconds: both are measured next to each other.
                e_step, speed = _e_step(url, mixture, cores), _speed(model, url, "predict", out)
                print(f"  predict into {kind:8s} {speed:8.0f} rows/s, exhaustive E-step {e_step:8.0f}")
                ratios[kind].append(speed / e_step)
        speed = _speed(model, url, "reconstruct", Path(folder) / "reconstructions.zarr")
        print(f"  reconstruct into a store {speed:8.0f} rows/s")
        for kind, values in ratios.items():
            name = f"rows per second of labels into {kind}, over those of an exhaustive E-step"
            report.check(name, median(values), low=0.8)
