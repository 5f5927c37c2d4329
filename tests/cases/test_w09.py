"""W09: Ctrl-C stops the work on the cluster as well, closes nothing that is the user's, and leaves a run to go on."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from distributed import Client

from tests.chaos.driver import digest, make_store, options
from tests.chaos.processes import Driver
from tests.kept import resume
from vmfa_dask import fit_local


def wait_until_idle(client: Client, seconds: float) -> list[str]:
    """Keys of tasks that the scheduler still knows after `seconds` at most."""
    end = time.monotonic() + seconds
    while True:
        keys = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        if not [key for key in keys if "mine" not in key] or time.monotonic() > end:
            return keys
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("word", ["pass 3", "ready"])
def test_an_interrupted_run_leaves_the_cluster_idle_and_goes_on(processes: Client, tmp_path: Path, word: str) -> None:
    store, run = make_store(tmp_path / "rows.zarr"), str(tmp_path / "run")
    mine = processes.submit(sum, [1, 2], key="mine")
    driver = Driver(processes.scheduler.address, store, run)
    try:
        driver.wait_for(word, 60)
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait_for("KeyboardInterrupt", 10) is not None, driver.lines
        assert driver.process.wait(10) != 0
    finally:
        driver.kill()
    assert wait_until_idle(processes, 10) == ["mine"]
    assert mine.result(timeout=10) == 3
    if word.startswith("pass"):
        last = int(
            next(
                re.search(r"after pass (\d+).*the run is kept in", line)
                for line in driver.lines
                if "is kept in" in line
            )[1]
        )
        assert last >= 3
        fit, passes = resume(store, processes, run, **options())
        assert passes[0] in (last + 1, last + 2)  # the signal may come when a pass is kept, and not told of yet
        assert digest(fit.model) == digest(fit_local(store, **options()).model)
