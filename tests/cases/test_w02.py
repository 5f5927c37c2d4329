"""W02: a worker is killed in the middle of training; nothing is counted twice, and the log says who was lost."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import IterationRecord, fit_distributed, fit_local

ROWS = draw(make_mixture(5, 8, 3), 3_000, dtype="float32")
OPTIONS = {"n_components": 6, "n_factors": 3, "n_groups": 30, "max_warmup_iter": 2, "max_iter": 5, "tol": 0.0}


def test_a_worker_dies_in_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, lost = write_store(tmp_path / "rows.zarr", ROWS, 100), ""
    with (
        local_cluster(3, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster, set_as_default=False) as client,
        caplog.at_level(logging.WARNING, logger="vmfa_dask"),
    ):

        def kill_one(record: IterationRecord) -> None:
            nonlocal lost
            if record.iteration == 3:
                nanny = next(iter(cluster.workers.values()))
                lost = nanny.worker_address
                os.kill(nanny.process.pid, signal.SIGKILL)

        fit = fit_distributed(store, client=client, progress=kill_one, **OPTIONS)
    straight = fit_local(store, **OPTIONS)
    assert parameters(fit.model) == parameters(straight.model)
    sums = [record.sum_of_counts for record in fit.history if record.phase == "training"]
    assert sums == pytest.approx([len(ROWS)] * 5, rel=1e-6)
    assert [record.sum_of_counts for record in fit.history if record.phase != "training"] == [None] * 3
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "lost worker" in message] == [
        f"lost worker {lost}; its tasks run again elsewhere"
    ]
