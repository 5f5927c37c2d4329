"""A driver in a process of its own, to be killed: fits, prints a line per pass, and at the end a digest of the model.

``python -m tests.chaos.driver ADDRESS STORE RUN`` exits with 0 after "done DIGEST", with 3 after "lost MESSAGE" when
the scheduler went away.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from typing import Any

from distributed import Client

from tests.samples import draw, fixed_passes, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, MixtureModel, SchedulerLost, fit_distributed

# Some fifteen passes of a tenth of a second on two cores, in twelve groups: kills meet every kind of task.
_OPTIONS = fixed_passes(40, 3, n_groups=12, max_warmup_iter=4, max_iter=10)
# Rows are copied into the order of their cells before the first pass, as with very many components.
RE_ORDERED = {"locality": True, "init_params": "uniform"}
# Which of the two runs this process and those that it starts make.
VARIANT = "VMFA_CHAOS"
VARIANTS = ("plain", "re-ordered")
SCHEDULER_LOST = 3


def options() -> dict[str, Any]:
    """Keywords of the fit."""
    return _OPTIONS | RE_ORDERED if os.environ.get(VARIANT) == "re-ordered" else _OPTIONS


def make_store(path: Any) -> str:
    """Rows for a run."""
    return write_store(path, draw(make_mixture(30, 24, 3), 30_000, dtype="float32"), 2_500)


def digest(model: MixtureModel) -> str:
    """Hash of all parameters."""
    return hashlib.sha256(parameters(model)).hexdigest()


def _say(*words: object) -> None:
    print(*words, flush=True)


def _report(record: IterationRecord) -> None:
    _say("pass", record.iteration)


def main(address: str, store: str, run: str) -> int:
    """Fit on the cluster at `address`."""
    # A process that a script starts in the background ignores Ctrl-C, and so would we as its child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Client(address, timeout=30) as client:
        _say("ready")
        try:
            fit = fit_distributed(
                store, client=client, run=run, checkpoint_share=1, progress=_report, worker_timeout=60, **options()
            )
        except SchedulerLost as error:
            _say("lost", error)
            return SCHEDULER_LOST
    _say("done", digest(fit.model))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
