"""Seconds from the call of a fit to its first iteration, with an empty compile cache and with a warm one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.report import Report

_SCRIPT = """
import time
import numpy as np
from vmfa_dask import fit_local
rows = np.random.default_rng(0).integers(0, 256, (4000, 3072)).astype(np.uint8)
begin, first = time.perf_counter(), []
fit_local(rows, n_components=20, n_factors=5, max_warmup_iter=1, max_iter=0, init_params="afkmc2",
          progress=lambda record: first.append(time.perf_counter() - begin - record.seconds))
print(first[0])
"""


def run(report: Report) -> None:
    """Start two processes one after the other with a new, shared cache.

    Parameters
    ----------
    report : Report
        Collects the checks.
    """
    with tempfile.TemporaryDirectory(prefix="vmfa-cache-") as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = [
            float(
                subprocess.run(
                    [sys.executable, "-c", _SCRIPT],
                    env=environment,
                    check=True,
                    timeout=300,
                    capture_output=True,
                    text=True,
                ).stdout.split()[-1]
            )
            for _ in range(2)
        ]
    print("start to first iteration (uint8 rows, H=5; imports not counted)")
    report.check("cold start, seconds", seconds[0], high=45)
    report.check("warm start, seconds", seconds[1], high=3)
