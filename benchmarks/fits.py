"""Whole fits on images: serial with rows in memory, through Zarr and Dask in this process, on two worker processes."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.machine import describe
from benchmarks.report import Report
from vmfa_dask import Fit, fit_distributed, fit_local
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.projection import projected_bytes
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import PAPER

_MEMORY_LIMIT = "4GiB"


@dataclass(frozen=True)
class Images:
    """Training and test images.

    Parameters
    ----------
    train, test : str
        Paths of Zarr arrays (N, height, width, channels), uint8.
    is_cifar : bool
        Whether they are CIFAR-10, for which bounds are known.
    """

    train: str
    test: str
    is_cifar: bool


@contextmanager
def client(processes: int) -> Iterator[Any]:
    """Start a cluster on this machine.

    Parameters
    ----------
    processes : int
        Number of worker processes of one thread each; 0 for one worker of two threads in this process.

    Yields
    ------
    distributed.Client
        Closed with its cluster when the context is left.
    """
    from dask.distributed import Client, LocalCluster

    layout = (
        {"n_workers": processes, "threads_per_worker": 1}
        if processes
        else {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    )
    with (
        LocalCluster(dashboard_address=None, memory_limit=_MEMORY_LIMIT, **layout) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def peak_bytes() -> int:
    """Read the highest resident memory of this process since it started (`VmHWM`).

    Returns
    -------
    int
        In bytes.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(name: str, function: Any) -> tuple[Fit, float]:
    """Run a fit and print its time per phase.

    Parameters
    ----------
    name : str
        Printed in front of the times.
    function : callable
        Without arguments; returns the fit.

    Returns
    -------
    fit : Fit
        The finished fit.
    seconds : float
        Its duration.
    """
    begin = time.perf_counter()
    fit = function()
    seconds = time.perf_counter() - begin
    phases: Counter[str] = Counter()
    for record in fit.history:
        phases.update(record.seconds_per_phase)
    passes = sum(record.seconds for record in fit.history)
    parts = ", ".join(f"{name} {value:.1f}" for name, value in phases.most_common())
    print(f"  {name}: {seconds:.1f} s ({seconds - passes:.1f} s before the first pass); by phase: {parts}", flush=True)
    return fit, seconds


def same_bytes(a: Fit, b: Fit) -> bool:
    """Compare the parameters of two fits bit by bit.

    Parameters
    ----------
    a, b : Fit
        Finished fits.

    Returns
    -------
    bool
        Whether all parameters are equal.
    """
    names = ("weights", "means", "loadings", "noise_variances")
    return all(getattr(a.model, name).tobytes() == getattr(b.model, name).tobytes() for name in names)


def run(report: Report, images: Images, n_components: int = 800) -> None:
    """Fit serially, in process and on worker processes, and compare times, memory and results.

    Parameters
    ----------
    report : Report
        Collects the checks.
    images : Images
        Training and test images.
    n_components : int
        C of all fits.
    """
    x = np.asarray(zarr.open_array(images.train, mode="r")[:])
    numbers: dict[str, Any] = {**PAPER, "n_components": n_components, "n_factors": 5}
    print(f"fit of {x.shape} {x.dtype}, {numbers} on {describe()}")
    fit_local(x[:2000], n_components=8, n_factors=5, max_iter=1, max_warmup_iter=1)  # warm kernels
    serial, seconds = timed(
        "serial, rows of the store kept in memory", lambda: fit_local(images.train, threads=2, **numbers)
    )
    with client(0) as connected:
        inproc, inproc_seconds = timed(
            "Zarr and Dask, in process", lambda: fit_distributed(images.train, client=connected, **numbers)
        )
    with client(2) as connected:
        connected.run(warm_worker, dict(numbers), x.dtype.str)
        two, two_seconds = timed(
            "Zarr and Dask, two worker processes", lambda: fit_distributed(images.train, client=connected, **numbers)
        )
        peaks = connected.run(peak_bytes)
    settings = serial.settings
    rows = ArrayRows(x)
    projection = sum(projected_bytes(rows, settings, make_plan(rows, settings)).values())
    report.check("in-process Zarr + Dask over serial", inproc_seconds / seconds, high=1.1)
    report.check("two worker processes over serial", two_seconds / seconds, high=1.35)
    report.check("equal bytes in all three", float(same_bytes(serial, inproc) and same_bytes(serial, two)), low=1)
    report.check("peak memory of a worker over its projection", max(peaks.values()) / projection, high=1.2)
    _check_course(report, serial, seconds, images)
    _check_defaults(report, images, n_components, seconds, nll_of(serial, images))


def _check_course(report: Report, fit: Fit, seconds: float, images: Images) -> None:
    joints = sum(record.n_joints for record in fit.history)
    warmup = sum(record.phase == "warm-up" for record in fit.history)
    total = sum(record.phase != "final" for record in fit.history)
    spent = sum(record.seconds_per_phase.get("log_joints", 0.0) for record in fit.history)
    nll = nll_of(fit, images)
    print(f"  {warmup} warm-up and {total} iterations in all, {joints / 1e6:.1f} million joints, test NLL {nll:.2f}")
    report.check("share of the fit outside log-joints", 1 - spent / seconds, high=0.4)
    if images.is_cifar:
        report.check("warm-up iterations", warmup, low=5, high=12)
        report.check("iterations in all", total, low=33, high=48)
        report.check("million joints", joints / 1e6, low=58, high=76)
        report.check("exact NLL on the test set", nll, high=15225)
        report.check("seconds of the fit, seeding and reading included", seconds, high=22)


def nll_of(fit: Fit, images: Images) -> float:
    """Compute the exact negative log-density of the test images.

    Parameters
    ----------
    fit : Fit
        A finished fit.
    images : Images
        Its images.

    Returns
    -------
    float
        Mean per image, in nats.
    """
    return -fit.model.score(np.asarray(zarr.open_array(images.test, mode="r")[:]))


def _check_defaults(
    report: Report, images: Images, n_components: int, paper_seconds: float, paper_nll: float
) -> None:
    """Compare the default settings with the paper's, which the fits above use."""
    numbers = {"threads": 2, "n_components": n_components}
    fit, seconds = timed("default settings, serial", lambda: fit_local(images.train, **numbers))
    nll = nll_of(fit, images)
    passes = sum(record.phase != "final" for record in fit.history)
    print(f"  {passes} iterations, {sum(r.n_joints for r in fit.history) / 1e6:.1f} million joints, test NLL {nll:.2f}")
    report.check("seconds of the default settings over those of the paper's", seconds / paper_seconds, high=1.05)
    report.check("NLL of the default settings over that of the paper's", nll / paper_nll, high=1.0005)


def warm_worker(numbers: dict[str, Any], dtype: str) -> float:
    """Load the kernels in a worker before its fit is timed.

    Parameters
    ----------
    numbers : dict
        Keywords of `Settings`.
    dtype : str
        The dtype of the rows.

    Returns
    -------
    float
        Seconds that it took.
    """
    from vmfa_dask.cluster.compilation import compile_ahead
    from vmfa_dask.run.settings import Settings

    return compile_ahead(Settings(**numbers), np.dtype(dtype))


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for the stores of a benchmark, a context manager that removes it."""
    return tempfile.TemporaryDirectory(prefix="vmfa-bench-")
