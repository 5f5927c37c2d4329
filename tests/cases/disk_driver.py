"""A driver on a disk that is full or read-only: ``python -m tests.cases.disk_driver CASE FOLDER STORE`` prints JSON.

CASE is "too small" (refused before the first pass), "fills" (the disk fills up while the run works, is made free again,
and the run goes on) or "read-only".
"""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

from tests.samples import fixed_passes, parameters
from vmfa_dask import IterationRecord, fit_local

OPTIONS = fixed_passes(20, 5, n_groups=2, max_warmup_iter=2, max_iter=6)
FULL_FROM = 4


def fill(path: str) -> None:
    """Write zeros until the disk is full."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def main(case: str, folder: str, store: str) -> dict[str, Any]:
    """What happened."""
    run, filler = os.path.join(folder, "run"), os.path.join(folder, "filler")
    found: dict[str, Any] = {"passes": []}

    def progress(record: IterationRecord) -> None:
        found["passes"].append(record.iteration)
        if case == "fills" and record.iteration == FULL_FROM:
            fill(filler)

    try:
        fit_local(store, **OPTIONS, run=run, checkpoint_share=1, progress=progress)
    except OSError as error:
        found.update(errno=errno.errorcode.get(error.errno or 0), message=str(error), run=run)
    if case == "fills":
        with open(os.path.join(run, "state.json"), encoding="utf-8") as file:
            found["kept"] = len(json.load(file)["records"])
        found["left"] = [n for _, folders, files in os.walk(run) for n in (*folders, *files) if "partial" in n]
        os.remove(filler)
        again = fit_local(store, **OPTIONS, run=run, resume="require")
        found["same"] = parameters(again.model) == parameters(fit_local(store, **OPTIONS).model)
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
