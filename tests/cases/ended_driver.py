"""A driver of tests that is ended by a signal after some pass.

    python -m tests.cases.ended_driver SCHEDULER SCRATCH SIGNAL [RUN]

It fits a Dask array on the cluster at an address, with copies of the rows and the exchange folder in SCRATCH, and sends
SIGNAL to itself; with "none" it waits for one from elsewhere.
"""

from __future__ import annotations

import os
import signal
import sys

import dask.array

from tests.samples import draw, make_mixture
from vmfa_dask import IterationRecord, fit_distributed

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_warmup_iter": 1, "max_iter": 4, "tol": 0.0}
LAST_PASS = 2


def main(scheduler: str, scratch: str, name: str, run: str | None = None) -> None:
    """Fit, and be ended after a pass."""

    def end(record: IterationRecord) -> None:
        if record.iteration == LAST_PASS:
            print(*sorted(entry.split("-")[0] for entry in os.listdir(scratch)), flush=True)
            if name != "none":
                os.kill(os.getpid(), getattr(signal, name))

    rows = dask.array.from_array(ROWS, chunks=(200, 6))
    options = OPTIONS if name != "none" else {**OPTIONS, "max_iter": 10**6}
    fit_distributed(rows, **options, client=scheduler, scratch=scratch, run=run, checkpoint_share=1, progress=end)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored, and left so by a fit, where nohup has started the tests
    main(*sys.argv[1:])
