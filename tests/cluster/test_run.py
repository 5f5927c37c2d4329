"""What a run leaves and shows on a cluster: names of tasks, events, memory checks, order after an error."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.sizeof import sizeof
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.cluster import worker_context as contexts
from vmfa_dask.cluster.dask_executor import TOPIC
from vmfa_dask.cluster.memory_check import check_memory, smallest_limit
from vmfa_dask.cluster.workers import shares_process
from vmfa_dask.run.handover import PartialResult
from vmfa_dask.store.exchange import running_kernel
from vmfa_dask.values import Moments, RowTally, Statistics

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "n_groups": 3, "max_iter": 2, "max_warmup_iter": 2}


def prefixes(client: Client) -> set[str]:
    return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))


def tasks_of(client: Client) -> set[str]:
    """Keys of all tasks that the scheduler knows."""
    return set(client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks))))


def remaining_tasks(client: Client, before: set[str]) -> set[str]:
    """Tasks that were not there before, and that the scheduler does not forget soon: releasing is a message on its way.

    Other tests share the cluster, and tasks of theirs may still be ending.
    """
    for _ in range(100):
        remaining = tasks_of(client) - before
        if not remaining:
            break
        time.sleep(0.05)
    return remaining


@pytest.mark.parametrize("cluster", ["in_process", "processes"])
@pytest.mark.slow
def test_tasks_are_named_for_what_they_do(cluster: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(cluster)
    fit_distributed(ROWS, client=client, **OPTIONS)
    fit_distributed(ROWS, client=client, **{**OPTIONS, "n_groups": 20, "init_params": "uniform"})
    fit_distributed(ROWS, client=client, **{**OPTIONS, "init_params": "afkmc2"})
    found = prefixes(client)
    assert {
        "e-step",
        "m-step",
        "neighbors",
        "reduce",
        "seed-survey",
        "seed-sample",
        "seed-pilot",
        "seed-chains",
        "seed-uniform",
    } <= found
    assert not any("run_task" in name or "lambda" in name for name in found)


@pytest.mark.parametrize("cluster", ["in_process", "processes"])
def test_nothing_is_left_behind(cluster: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    client: Client = request.getfixturevalue(cluster)
    before = tasks_of(client)
    fit_distributed(ROWS, client=client, scratch=str(tmp_path), **OPTIONS)
    assert list(tmp_path.iterdir()) == []
    assert remaining_tasks(client, before) == set()
    assert not contexts._contexts
    assert client.status == "running"


def test_versions_live_in_the_scratch_folder_while_the_run_lasts(processes: Client, tmp_path: Path) -> None:
    seen = []
    fit_distributed(
        ROWS,
        client=processes,
        scratch=str(tmp_path),
        progress=lambda record: seen.append(sorted(path.name for path in next(iter(tmp_path.iterdir())).iterdir())),
        **OPTIONS,
    )
    assert len(seen) == 5
    assert all({"graph", "parameters", "posterior", "start"} <= set(names) for names in seen)


def test_old_versions_are_forgotten_during_the_run(processes: Client, tmp_path: Path) -> None:
    counts = []

    def count(record: object) -> None:
        folder = next(iter(tmp_path.iterdir()))
        counts.append([len(list((folder / kind).iterdir())) for kind in ("parameters", "graph", "posterior")])

    fit_distributed(
        ROWS, client=processes, scratch=str(tmp_path), progress=count, **{**OPTIONS, "max_iter": 8, "tol": 0.0}
    )
    assert np.max(counts) <= 2


@pytest.mark.skipif(running_kernel() is None, reason="needs Linux: files are reused only where /proc names the boot")
def test_parameters_of_a_run_on_one_machine_move_between_the_same_files(processes: Client, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    fit_distributed(
        ROWS,
        client=processes,
        scratch=str(tmp_path),
        progress=lambda record: seen.append([path.name for path in tmp_path.glob("*/spares-*/parameters.*")]),
        **{**OPTIONS, "max_iter": 8, "tol": 0.0},
    )
    assert max(len(names) for names in seen) == 1  # what was discarded last waits for the next version
    assert any(not names for names in seen[:-1])


def test_records_are_events_on_the_dashboard(in_process: Client) -> None:
    fit = fit_distributed(ROWS, client=in_process, **OPTIONS)
    events = [event for _, event in in_process.get_events(TOPIC)][-len(fit.history) :]
    assert [event["free_energy"] for event in events] == [record.free_energy for record in fit.history]
    assert len({event["run"] for event in events}) == 1


def test_an_error_is_raised_as_it_is_and_the_cluster_goes_on(processes: Client) -> None:
    bad, before = ROWS.copy(), tasks_of(processes)
    bad[321, 5] = np.nan
    with pytest.raises(ValueError, match=r"data: row 321, feature 5: found nan") as error:
        fit_distributed(bad, client=processes, **OPTIONS)
    assert remaining_tasks(processes, before) == set()  # while a notebook, or this test, still holds the traceback
    with warnings.catch_warnings(record=True) as of_the_scheduler:
        warnings.simplefilter("always")
        processes.get_dataset("nothing", default=None)  # tells the scheduler which keys the client still wants
        assert processes.submit(sum, [1, 2]).result(timeout=10) == 3  # what was told before has arrived by then
    assert not of_the_scheduler
    assert error.tb is not None
    fit = fit_distributed(ROWS, client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)
    assert remaining_tasks(processes, before) == set()


def test_an_error_of_the_driver_leaves_the_cluster_clean(in_process: Client) -> None:
    def stop(record: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_distributed(ROWS, client=in_process, progress=stop, **OPTIONS)
    assert not contexts._contexts
    fit_distributed(ROWS, client=in_process, **OPTIONS)


def test_a_run_that_does_not_fit_is_refused_before_any_task() -> None:
    with (
        local_cluster(1, processes=False, memory_limit="64 MiB") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(MemoryError, match=r"limit, 64 MiB; the largest part is .* give each worker at least"):
            fit_distributed(ROWS, client=client, **OPTIONS)
        assert not {"e-step", "seed-survey"} & prefixes(client)


def test_memory_check() -> None:
    projection = {"rows": 300 * 2**20, "model": 100 * 2**20}
    advice: list[int] = []

    def advise(usable: int) -> str:
        advice.append(usable)
        return "take less"

    assert check_memory(projection, None, advise) == 0
    assert check_memory(projection, 500 * 2**20, advise) == 0
    room = check_memory(projection, 1000 * 2**20, advise)
    assert 0 < room <= 400 * 2**20
    message = r"need 400 MiB \(rows 300 MiB, model 100 MiB\).* 80% of its limit, 499 MiB; take less\."
    with pytest.raises(MemoryError, match=message):
        check_memory(projection, 499 * 2**20, advise)
    assert advice == [int(0.8 * 499 * 2**20)]


def test_the_smallest_limit_counts() -> None:
    assert smallest_limit({"a": {"memory_limit": 5}, "b": {"memory_limit": 3}, "c": {"memory_limit": 0}}) == 3
    assert smallest_limit({"a": {"memory_limit": 0}, "b": {}}) is None


def test_sharing_a_process_is_noticed(in_process: Client, processes: Client) -> None:
    for client, expected in ((in_process, True), (processes, False)):
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert shares_process(client, workers) is expected


def test_dask_knows_the_size_of_what_travels() -> None:
    moments = Moments(np.zeros(50), np.zeros((50, 4, 4)), np.zeros((50, 5, 1000), np.float32))
    part = Statistics(0, 0, 50, moments, None)
    assert sizeof(part) >= moments.moments.nbytes
    assert sizeof(PartialResult({0: part}, RowTally(1, 1, 0.0))) >= moments.moments.nbytes


@pytest.mark.slow
def test_a_worker_keeps_few_contexts_and_a_driver_its_own() -> None:
    names = [f"run-{k}" for k in range(contexts._MOST_CONTEXTS + 3)]
    contexts.register(contexts.RunReference("driver", None, None, None, None, None, "refuse", 0, None), object())  # type: ignore[arg-type]
    for name in names:
        contexts._keep(name, object())  # type: ignore[arg-type]
    assert list(contexts._contexts) == ["driver", *names[3:]]
    for name in ("driver", *names):
        contexts.forget(name)
    assert not contexts._made_by_tasks
    assert not contexts._contexts
