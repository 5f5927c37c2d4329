"""What a client knows of its workers, and what it means when it knows nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client
from distributed.comm.core import CommClosedError

from vmfa_dask.cluster.worker_watch import WorkerWatch
from vmfa_dask.cluster.workers import naming_a_lost_scheduler, workers_of
from vmfa_dask.run.executor import SchedulerLost


def client_that_knows(answers: list[dict[str, Any]], status: str) -> Any:
    """A client whose scheduler gives these answers, one after the other."""
    scheduler = SimpleNamespace(address="tcp://127.0.0.1:1")
    return SimpleNamespace(scheduler_info=lambda n_workers: answers.pop(0), status=status, scheduler=scheduler)


def test_workers_of_a_cluster(processes: Client) -> None:
    assert len(workers_of(processes)) == 2


@pytest.mark.parametrize(("status", "error"), [("connecting", SchedulerLost), ("running", CommClosedError)])
def test_a_connection_that_breaks_meanwhile_is_no_key_error(status: str, error: type[Exception]) -> None:
    client = client_that_knows([{"type": "Scheduler"}], status)
    with pytest.raises(error), naming_a_lost_scheduler(client):
        workers_of(client)


def test_the_watch_waits_for_an_answer_while_the_client_runs() -> None:
    known = {"workers": {"tcp://127.0.0.1:2": {}}}
    client = client_that_knows([known, {}, known], "running")
    watch = WorkerWatch(client)
    watch.look()
    watch.look()
    client = client_that_knows([known, {}], "closed")
    watch = WorkerWatch(client)
    with pytest.raises(SchedulerLost, match=r"lost the scheduler at tcp://127\.0\.0\.1:1"):
        watch.look()
