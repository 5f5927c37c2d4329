"""The cost of keeping a run in a folder, and the time to resume it, on two worker processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.fits import Images, client, temporary_folder, warm_worker
from benchmarks.report import Report
from vmfa_dask import IterationRecord, fit_distributed
from vmfa_dask.run.settings import PAPER
from vmfa_dask.service.checkpoints import KeptRun

_HALF = 20


class Interrupted(Exception):
    """Ends a run between two passes."""


def run(report: Report, images: Images, n_components: int = 800) -> None:
    """Interrupt a run halfway and resume it; time the keeping, and the way to the first pass.

    Parameters
    ----------
    report : Report
        Collects the two checks.
    images : Images
        Only the training images are used.
    n_components : int
        C of the fit.
    """
    numbers: dict[str, Any] = {**PAPER, "n_components": n_components, "tol": 0.0, "max_iter": 2 * _HALF}
    spent, first = [0.0], []
    keep = KeptRun.keep_latest

    def timed(kept: KeptRun) -> None:
        begin = time.perf_counter()
        keep(kept)
        spent[0] += time.perf_counter() - begin

    def stop(record: IterationRecord) -> None:
        if record.iteration == _HALF:
            raise Interrupted

    def note(record: IterationRecord) -> None:
        if not first:
            first.append(time.perf_counter() - begin - record.seconds)

    with temporary_folder() as folder, patch.object(KeptRun, "keep_latest", timed), client(2) as connected:
        connected.run(warm_worker, numbers, "|u1")
        options = {"client": connected, "run": str(Path(folder) / "run"), **numbers}
        begin = time.perf_counter()
        try:
            fit_distributed(images.train, progress=stop, **options)
        except Interrupted:
            pass
        seconds, begin = time.perf_counter() - begin, time.perf_counter()
        fit_distributed(images.train, progress=note, **options)
        seconds += time.perf_counter() - begin
    print(f"kept run on two worker processes: {seconds:.1f} s, {spent[0]:.2f} s of them to keep it")
    report.check("share of a run that keeping it takes", spent[0] / seconds, high=0.03)
    report.check("seconds from a call that resumes to its first pass", first[0], high=5)
