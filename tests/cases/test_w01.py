"""W01: a cluster whose workers are not there yet, never come, or are fewer than asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(4, 6, 3), 300, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 3, "n_groups": 4}


@pytest.fixture
def empty() -> Iterator[LocalCluster]:
    """A cluster without workers."""
    with local_cluster(0, processes=False) as cluster:
        yield cluster


def test_workers_that_come_late(empty: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    timer = threading.Timer(2.0, empty.scale, [1])
    begin = time.monotonic()
    with Client(empty, set_as_default=False) as client, caplog.at_level(logging.INFO, logger="vmfa_dask"):
        timer.start()
        fit = fit_distributed(ROWS, client=client, worker_timeout=60, **OPTIONS)
    timer.join()
    assert time.monotonic() - begin > 2.0
    assert any("waiting for workers" in record.getMessage() for record in caplog.records)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_workers_that_never_come(empty: LocalCluster) -> None:
    begin = time.monotonic()
    with (
        Client(empty, set_as_default=False) as client,
        pytest.raises(TimeoutError, match=r"has 0 workers after 2 s; start some, or raise worker_timeout"),
    ):
        fit_distributed(ROWS, client=client, worker_timeout=2.0, **OPTIONS)
    assert time.monotonic() - begin < 30


def test_fewer_workers_than_asked_for_are_enough(empty: LocalCluster) -> None:
    # The others come while the fit is under way, as on a busy queue.
    asked = iter([2, 3])
    with Client(empty, set_as_default=False) as client:
        empty.scale(1)
        fit = fit_distributed(ROWS, client=client, progress=lambda record: empty.scale(next(asked, 3)), **OPTIONS)
        client.wait_for_workers(3, timeout=30)
    assert np.isfinite(fit.model.score(ROWS))
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)
