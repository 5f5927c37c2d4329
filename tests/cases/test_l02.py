"""L02: clients that cannot be waited for are refused in a sentence; fits within tasks leave their thread to others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, get_client, worker_client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import attach, fit_distributed, fit_local

ROWS = draw(make_mixture(3, 6, 1), 400, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 2, "max_warmup_iter": 1, "max_iter": 2, "tol": 0.0,
}  # fmt: skip
SENTENCE = r"client: an asynchronous (client|cluster) .* asyncio\.to_thread\(fit_.*, or pass a synchronous Client"


def refuse(client: Any, run: str | None = None) -> None:
    with pytest.raises(TypeError, match=SENTENCE) as refused:
        fit_distributed(ROWS, **OPTIONS, client=client)
    assert "\n" not in str(refused.value)
    if run is not None:
        with pytest.raises(TypeError, match=SENTENCE):
            attach(run, client)


def test_asynchronous_clients_and_clusters_are_refused(process_cluster: LocalCluster, tmp_path: Path) -> None:
    async def main() -> None:
        waiting = Client(process_cluster.scheduler_address, asynchronous=True, set_as_default=False)
        refuse(waiting, str(tmp_path))  # not connected yet
        async with waiting as client:
            refuse(client, str(tmp_path))
        async with LocalCluster(
            n_workers=0, processes=False, asynchronous=True, dashboard_address="127.0.0.1:0"
        ) as cluster:
            refuse(cluster, str(tmp_path))

    asyncio.run(main())


def test_the_current_client_may_be_an_asynchronous_one(process_cluster: LocalCluster) -> None:
    async def main() -> None:
        async with Client(process_cluster.scheduler_address, asynchronous=True):
            refuse(None)

    asyncio.run(main())


def test_a_client_in_its_own_event_loop_is_refused(in_process: Client) -> None:
    async def inside() -> None:
        refuse(in_process)

    in_process.sync(inside)


def test_a_coroutine_fits_in_a_thread_with_any_client(processes: Client) -> None:
    async def main() -> list[Any]:
        address = processes.scheduler.address
        async with Client(address, asynchronous=True, set_as_default=False) as own:
            return [
                await asyncio.to_thread(fit_distributed, ROWS, **OPTIONS, client=client)
                for client in (processes, address, own)
            ]

    expected = parameters(fit_local(ROWS, **OPTIONS).model)
    assert [parameters(fit.model) == expected for fit in asyncio.run(main())] == [True] * 3


def fit_with(kind: str, store: str) -> np.ndarray:
    """A fit within a task, with what its author may have taken for a client."""
    if kind == "worker_client":
        with worker_client() as client:
            return fit_distributed(store, **OPTIONS, client=client).model.means
    client = {"none": lambda: None, "get_client": get_client, "address": lambda: get_client().scheduler.address}[kind]()
    first = fit_distributed(store, **OPTIONS, client=client).model.means
    again = fit_distributed(store, **OPTIONS, client=client).model.means
    assert np.array_equal(first, again)
    return first


KINDS = ["none", "get_client", "address", "worker_client"]


def test_fits_within_tasks_may_take_all_threads(processes: Client, tmp_path: Path) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    found = processes.gather(processes.map(fit_with, KINDS, store=store, pure=False))
    expected = fit_local(store, **OPTIONS).model.means
    assert all(np.array_equal(means, expected) for means in found)


@pytest.mark.slow
def test_fits_within_tasks_may_take_all_threads_of_this_process(tmp_path: Path) -> None:
    store = write_store(tmp_path / "x.zarr", ROWS, 100)
    with local_cluster(1, 1, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        found = client.gather(client.map(fit_with, KINDS, store=store, pure=False))
    expected = fit_local(store, **OPTIONS).model.means
    assert all(np.array_equal(means, expected) for means in found)


def test_a_coroutine_as_a_task_is_told(in_process: Client) -> None:
    async def task() -> str:
        try:
            fit_distributed(ROWS, **OPTIONS)
        except TypeError as error:
            return str(error)
        return "worked"

    assert "asynchronous client" in in_process.submit(task, pure=False).result(30)


def test_a_closed_client_is_named(process_cluster: LocalCluster) -> None:
    client = Client(process_cluster, set_as_default=False)
    client.close()
    with pytest.raises(ValueError, match="client: this client is closed"):
        fit_distributed(ROWS, **OPTIONS, client=client)
