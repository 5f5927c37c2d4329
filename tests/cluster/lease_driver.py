"""A driver that works until somebody kills it; arguments: the scheduler, the store of the rows, a file to make."""

from __future__ import annotations

import sys
from pathlib import Path

from distributed import Client

from vmfa_dask import fit_distributed

if __name__ == "__main__":
    address, store, mark = sys.argv[1:]
    options = {"n_components": 4, "n_factors": 1, "n_groups": 2, "init_params": "uniform", "max_warmup_iter": 1}
    with Client(address, set_as_default=False) as client:
        fit_distributed(
            store, client=client, max_iter=100_000, tol=0.0, progress=lambda record: Path(mark).touch(), **options
        )
