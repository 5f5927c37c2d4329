"""A script of a user that is interrupted: a cluster of this machine, and a fit on it.

    python -m tests.cluster.interrupted_script [RUN]

It says "ready", and then each pass and its phase.
"""

from __future__ import annotations

import signal
import sys

from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed

if __name__ == "__main__":
    # A process that a script starts in the background ignores Ctrl-C, and so would we as its child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows = draw(make_mixture(30, 24, 3, spread=0.7), 30_000, dtype="float32")  # overlapping: it takes long
    with local_cluster(1) as cluster, Client(cluster, set_as_default=False) as client:
        print("ready", flush=True)
        fit_distributed(
            rows,
            n_components=40,
            n_factors=3,
            n_groups=12,
            max_warmup_iter=4,
            max_iter=10**6,
            tol=0.0,
            warmup_tol=0.0,
            client=client,
            run=sys.argv[1] if len(sys.argv) > 1 else None,
            progress=lambda record: print("pass", record.iteration, record.phase, flush=True),
        )
