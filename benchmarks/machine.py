"""Yardsticks of this machine, measured side by side with the code under test."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

# OpenBLAS keeps its threads spinning for a while after a product; they would take a core from the next measurement.
_SPIN_SECONDS = 0.2


def describe() -> str:
    """Describe the processor, its cores, and the BLAS kernel in use.

    Returns
    -------
    str
        One line.
    """
    from threadpoolctl import threadpool_info

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    blas = next((info for info in threadpool_info() if info["user_api"] == "blas"), {})
    forced = os.environ.get("OPENBLAS_CORETYPE")
    note = f", forced by OPENBLAS_CORETYPE={forced}" if forced else ""
    return f"{model}, {os.cpu_count()} cores, BLAS {blas.get('internal_api')} ({blas.get('architecture')}{note})"


def seconds(function: Callable[[], object], least: float = 0.15) -> float:
    """Time a function.

    Parameters
    ----------
    function : callable
        Without arguments.
    least : float
        It is called again and again for at least so many seconds.

    Returns
    -------
    float
        Seconds per call.
    """
    begin, calls = time.perf_counter(), 0
    while True:
        function()
        calls += 1
        elapsed = time.perf_counter() - begin
        if elapsed >= least:
            return elapsed / calls


class Sgemm:
    """A float32 matrix product that is large enough to be bound by arithmetic.

    Parameters
    ----------
    n : int
        Rows and columns of the matrices.
    """

    def __init__(self, n: int = 1536) -> None:
        rng = np.random.default_rng(0)
        self._a, self._b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
        self._flops = 2.0 * n**3
        self.rate()

    def rate(self) -> float:
        """Measure the floating-point operations per second of the product."""
        rate = self._flops / seconds(lambda: self._a @ self._b, 0.1)
        time.sleep(_SPIN_SECONDS)
        return rate


def ratio_to_sgemm(sgemm: Sgemm, function: Callable[[], object], flops: float, rounds: int = 5) -> tuple[float, float]:
    """Compare a function with matrix products measured just before and after it.

    Parameters
    ----------
    sgemm : Sgemm
        The products.
    function : callable
        Without arguments.
    flops : float
        Floating-point operations per call.
    rounds : int
        Number of measurements.

    Returns
    -------
    rate : float
        Median rate of the function, in operations per second.
    ratio : float
        Median of its ratio to the rate of the products.
    """
    rates, ratios = [], []
    before = sgemm.rate()
    for _ in range(rounds):
        rate = flops / seconds(function)
        after = sgemm.rate()
        rates.append(rate)
        ratios.append(2 * rate / (before + after))
        before = after
    return statistics.median(rates), statistics.median(ratios)
