"""A fit that waits for workers that Dask has paused says so, once."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from vmfa_dask import fit_distributed
from vmfa_dask.cluster import pauses
from vmfa_dask.cluster.pauses import describe_pause

ROWS = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2, "max_warmup_iter": 1}


def set_paused(client: Client, paused: bool) -> None:
    """As a worker does by itself when its memory is nearly used up; its own watch is off."""

    def change(dask_worker: Any) -> None:
        from distributed import Status

        manager = dask_worker.memory_manager
        manager.memory_pause_fraction = False
        dask_worker.status = Status.paused if paused else Status.running

    client.run(change)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.slow
def test_a_fit_on_paused_workers_says_so_and_goes_on_when_they_do(
    processes: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pauses, "SECONDS_BETWEEN_LOOKS", 0.2)
    told = threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "are paused" in record.getMessage():
                told.set()

    handler = Told()
    pauses.logger.addHandler(handler)
    try:
        with local_cluster(1, processes=processes) as cluster, Client(cluster, set_as_default=False) as client:
            set_paused(client, True)
            fits: list[Any] = []
            work = threading.Thread(target=lambda: fits.append(fit_distributed(ROWS, client=client, **OPTIONS)))
            work.start()
            assert told.wait(60)
            set_paused(client, False)
            work.join(60)
            assert len(fits) == 1
    finally:
        pauses.logger.removeHandler(handler)
    warnings = [record for record in caplog.records if "are paused" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].levelno == logging.WARNING
    assert "1 of 1 workers are paused" in warnings[0].getMessage()
    assert "MiB in use, limit" in warnings[0].getMessage()


def test_what_is_said_of_paused_workers() -> None:
    one = {"memory_limit": 2 * 2**30, "metrics": {"memory": 1800 * 2**20}}
    text = describe_pause({"tcp://a:1": one, "tcp://b:2": {"metrics": {}}}, 3)
    assert "2 of 3 workers are paused" in text
    assert "their tasks wait: tcp://a:1 (1800 MiB in use, limit 2048 MiB), tcp://b:2 (memory in use unknown)" in text
    assert "and 15 more" in describe_pause({f"tcp://a:{k}": one for k in range(20)}, 20)
