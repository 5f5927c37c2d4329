"""E-steps that wait for the cores of a busy process go to a worker that has nothing to do."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import parameters
from vmfa_dask import fit_distributed

ROWS = np.random.default_rng(0).normal(size=(800, 6)).astype(np.float32)
OPTIONS: dict[str, Any] = {
    "n_components": 3,
    "n_factors": 1,
    "max_iter": 0,
    "max_warmup_iter": 1,
    "init_params": "uniform",
    "n_init": 1,
    "n_groups": 5,
}


def slow_e_steps(mark: str) -> None:
    """The first E-step of this process waits for a file, then each takes some time; all are counted."""
    import os
    import time

    from vmfa_dask.run.tasks import e_step
    from vmfa_dask.runtime import threads

    threads.SECONDS_OF_WAITING = 0.2
    known = e_step._evaluate_group
    e_step.ran = []

    def run(*arguments: Any) -> Any:
        e_step.ran.append(1)
        while not os.path.exists(mark):
            time.sleep(0.05)
        time.sleep(1.0)
        return known(*arguments)

    e_step._evaluate_group = run


def began() -> int:
    from vmfa_dask.run.tasks import e_step

    return len(e_step.ran)


@pytest.mark.long
def test_groups_that_wait_go_to_a_worker_that_has_come(tmp_path: Path) -> None:
    """Five threads of the first worker have begun all five groups of the pass, of which one can compute."""
    fits: list[Any] = []
    with local_cluster(1, threads=5) as cluster, Client(cluster, set_as_default=False) as client:
        known = fit_distributed(ROWS, client=client, threads=1, **OPTIONS)  # compiles
        client.run(slow_e_steps, str(tmp_path / "mark"))
        (first,) = client.scheduler_info()["workers"]
        counts: list[int] = []

        def count(record: object) -> None:
            counts.append(client.run(began, workers=[first])[first])

        def fit() -> None:
            fits.append(fit_distributed(ROWS, client=client, threads=1, progress=count, **OPTIONS))

        work = threading.Thread(target=fit)
        work.start()
        while client.run(began, workers=[first])[first] == 0:
            time.sleep(0.05)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
        (tmp_path / "mark").touch()
        work.join(90)
    assert parameters(fits[0].model) == parameters(known.model)
    assert 1 <= counts[0] < 5
