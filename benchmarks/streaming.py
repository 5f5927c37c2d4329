"""Rows beyond memory: four times that of the workers, bytes read per pass, and speed compared with reading alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zarr

from benchmarks.fits import peak_bytes, temporary_folder, warm_worker
from benchmarks.machine import describe
from benchmarks.report import Report
from vmfa_dask import Fit, fit_distributed
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import read_ahead
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.store.rows import ZarrRows

_N_FEATURES = 3072
_CHUNK_ROWS = 682  # 2 MiB
_SHARD_ROWS = 32 * _CHUNK_ROWS
_FEW: dict[str, Any] = {**PAPER, "n_components": 2, "n_factors": 0, "truncation": 1, "neighborhood": 1}
# The speed of disks and cores changes within minutes: both are measured in turn, several times.
_ROUNDS = 5
_PASSES: dict[str, Any] = {**PAPER, "max_warmup_iter": 1, "warmup_tol": 0.0, "tol": 0.0}


@contextmanager
def workers(memory_limit: float) -> Iterator[Any]:
    """Start two worker processes of one thread each.

    Parameters
    ----------
    memory_limit : float
        Memory per worker in bytes.

    Yields
    ------
    distributed.Client
        Closed with its cluster when the context is left.
    """
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=int(memory_limit)
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def make_store(path: Path, n_bytes: float, levels: int, compressors: Any) -> str:
    """Write smooth pictures to a sharded store, with different noise in each shard.

    Parameters
    ----------
    path : path
        The new array, (N, 3072) uint8.
    n_bytes : float
        Size of all rows, rounded to whole shards.
    levels : int
        Number of grey values: fewer compress better.
    compressors : Any
        As in `zarr.create_array`.

    Returns
    -------
    str
        The path.
    """
    n_rows = max(1, round(n_bytes / _N_FEATURES / _SHARD_ROWS)) * _SHARD_ROWS
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=(_SHARD_ROWS, 24)) @ rng.normal(size=(24, _N_FEATURES)) * 10
    noise = rng.normal(0, 20, (_SHARD_ROWS, _N_FEATURES))
    array = zarr.create_array(
        path,
        shape=(n_rows, _N_FEATURES),
        dtype="uint8",
        chunks=(_CHUNK_ROWS, _N_FEATURES),
        shards=(_SHARD_ROWS, _N_FEATURES),
        compressors=compressors,
        config={"write_empty_chunks": True},
    )
    step = 256 // levels
    for shard in range(n_rows // _SHARD_ROWS):
        pixels = np.clip(128 + smooth + np.roll(noise, 37 * shard, axis=1), 0, 255).astype(np.uint8)
        array[shard * _SHARD_ROWS : (shard + 1) * _SHARD_ROWS] = pixels // step * step
    return str(path)


def stored_bytes(path: str) -> int:
    """Add up the sizes of the chunks of an array.

    Parameters
    ----------
    path : str
        The array.

    Returns
    -------
    int
        In bytes.
    """
    return sum(file.stat().st_size for file in Path(path, "c").rglob("*") if file.is_file())


def rows_per_second(fit: Fit) -> float:
    """Compute the speed of a fit.

    Parameters
    ----------
    fit : Fit
        A finished fit.

    Returns
    -------
    float
        Median over the passes of training without the first one.
    """
    return median(
        record.rows_per_second for record in fit.history if record.phase == "training" and record.iteration > 1
    )


def read_alone(url: str, half: int, settings: Settings) -> float:
    """Read and decode half of a store in the row blocks of a fit.

    Parameters
    ----------
    url : str
        The store.
    half : {0, 1}
        Which half.
    settings : Settings
        Of the fit.

    Returns
    -------
    float
        Seconds.
    """
    rows = ZarrRows(url)
    block_rows = make_plan(rows, settings).block_rows
    start, stop = half * rows.n_rows // 2, (half + 1) * rows.n_rows // 2
    begin = time.perf_counter()
    for _ in read_ahead(rows, start, stop, block_rows):
        pass
    return time.perf_counter() - begin


def read_by_zarr(url: str, half: int, settings: Settings) -> float:
    """Do the same as `read_alone` with Zarr's own reader; arguments and result are the same."""
    array, block_rows = zarr.open_array(url, mode="r"), make_plan(ZarrRows(url), settings).block_rows
    start, stop = half * array.shape[0] // 2, (half + 1) * array.shape[0] // 2
    begin = time.perf_counter()
    for first in range(start, stop, block_rows):
        array[first : min(first + block_rows, stop)]
    return time.perf_counter() - begin


def run(report: Report, gigabytes: float, limit_gigabytes: float) -> None:
    """Run all measurements.

    Parameters
    ----------
    report : Report
        Collects the checks.
    gigabytes : float
        Size of the rows.
    limit_gigabytes : float
        Memory of each of two workers.
    """
    with temporary_folder() as folder:
        _more_than_memory(report, Path(folder), gigabytes * 1e9, limit_gigabytes * 1e9)
    with temporary_folder() as folder:
        _beside_memory(report, Path(folder), gigabytes * 1e9 / 5)
    with temporary_folder() as folder:
        _beside_reading(report, Path(folder), gigabytes * 1e9 / 5)


def _more_than_memory(report: Report, folder: Path, n_bytes: float, limit: float) -> None:
    store = make_store(folder / "rows.zarr", n_bytes, 256, None)
    stored = stored_bytes(store)
    numbers: dict[str, Any] = {"n_components": 100, "n_factors": 5, "max_iter": 3, **_PASSES}
    print(f"{stored / 1e9:.1f} GB of rows, two workers of {limit / 1e9:.1f} GB, {numbers} on {describe()}", flush=True)
    with workers(limit) as client:
        before = sorted(client.run(os.getpid).values())
        begin = time.perf_counter()
        fit = fit_distributed(
            store, client=client, progress=lambda record: print(" ", record.line(), flush=True), **numbers
        )
        print(f"  {time.perf_counter() - begin:.1f} s")
        peaks = client.run(peak_bytes)
        spilled = client.run(lambda dask_worker: getattr(dask_worker.data, "spilled_total", (0, 0))[1])
        after = sorted(client.run(os.getpid).values())
    report.check("store over the memory of all workers", stored / (2 * limit), low=3.9)
    report.check("peak memory of a worker over its limit", max(peaks.values()) / limit, high=1)
    report.check(
        "workers that were restarted, bytes that were spilled", float(before != after) + sum(spilled.values()), high=0
    )
    cached = 1 - min(record.bytes_read for record in fit.history) / stored
    print(f"  {cached:.1%} of the rows were kept in memory between passes")
    report.check(
        "bytes read in the pass that reads most, over those stored",
        _most_read(store, limit) / stored,
        low=0.99,
        high=1.01,
    )


def _most_read(store: str, limit: float) -> float:
    """Bytes read per pass if no rows are kept in memory."""
    with workers(limit) as client:
        options: dict[str, Any] = {"n_components": 8, "n_factors": 1, "max_iter": 1, **_PASSES}
        fit = fit_distributed(store, client=client, cache_bytes=0, **options)
    return max(record.bytes_read for record in fit.history)


def _beside_memory(report: Report, folder: Path, n_bytes: float) -> None:
    """Compare fits with rows from the store and from memory, where kernels take longer than reading."""
    store = make_store(folder / "rows.zarr", n_bytes, 256, None)
    numbers: dict[str, Any] = {"n_components": 200, "n_factors": 5, "max_iter": 4, **_PASSES}
    speed = {}
    with workers(4 * n_bytes + 2e9) as client:
        client.run(warm_worker, {"n_components": 200, "n_factors": 5}, "uint8")
        for name, cache in (("memory", int(2 * n_bytes)), ("store", 0)):
            speed[name] = rows_per_second(fit_distributed(store, client=client, cache_bytes=cache, **numbers))
            print(f"  rows from {name}: {speed[name]:.0f} rows/s")
    report.check("rows per second from the store over those from memory", speed["store"] / speed["memory"], low=0.9)


def _beside_reading(report: Report, folder: Path, n_bytes: float) -> None:
    """Compare a fit of few components, whose kernels are cheaper than reading, with reading alone.

    Decoding takes the cores that the kernels need, so the raw speed of a compressed store is that of Zarr alone. The
    speed of our own decoder alone is printed.
    """
    for name, levels, compressors, cold in (("the disk", 256, None, True), ("a compressed store", 8, "auto", False)):
        store = make_store(folder / f"{levels}.zarr", n_bytes, levels, compressors)
        raw, label = (read_by_zarr, "Zarr") if compressors else (read_alone, "reading")
        with workers(4e9) as client:
            client.run(warm_worker, _FEW, "uint8")
            rounds = [
                (_fit_few_components(client, store, cold), _read_halves(client, store, cold, raw))
                for _ in range(_ROUNDS)
            ]
            if compressors:
                print(f"  our own decoder alone: {_read_halves(client, store, cold, read_alone):.0f} rows/s")
        print(f"  rows from {name}: " + ", ".join(f"{fit:.0f} ({label} {alone:.0f})" for fit, alone in rounds) + " /s")
        ratio = median(fit / alone for fit, alone in rounds)
        report.check(f"rows per second from {name} over those of {label} alone", ratio, low=0.9)


def _fit_few_components(client: Any, store: str, cold: bool) -> float:
    """Rows per second of a fit; `cold` empties the system's cache before each pass."""

    def forget(record: Any = None) -> None:
        if cold:
            drop_from_page_cache(store)

    forget()
    fit = fit_distributed(store, client=client, cache_bytes=0, max_iter=4, progress=forget, **{**_FEW, **_PASSES})
    return rows_per_second(fit)


def _read_halves(client: Any, store: str, cold: bool, raw: Callable[[str, int, Settings], float]) -> float:
    """Rows per second of reading by `raw`, half of the rows on each worker."""
    seconds, addresses = [], sorted(client.scheduler_info(n_workers=-1)["workers"])
    for _ in range(3):
        if cold:
            drop_from_page_cache(store)
        halves = [
            client.submit(raw, store, half, Settings(**_FEW), workers=[address], pure=False)
            for half, address in enumerate(addresses)
        ]
        seconds.append(max(client.gather(halves)))
    return float(zarr.open_array(store, mode="r").shape[0] / median(seconds))


def drop_from_page_cache(store: str) -> None:
    """Drop the files of a store from the system's cache, so that they are read from the disk.

    Parameters
    ----------
    store : str
        Its folder.
    """
    for file in Path(store).rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fdatasync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
