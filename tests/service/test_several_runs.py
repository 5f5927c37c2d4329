"""Several runs at once on one cluster: each has its own names, records and folder, and none waits for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import Fit, IterationRecord, attach, fit_distributed, fit_local
from vmfa_dask.cluster.dask_executor import TOPIC
from vmfa_dask.store.run_inspection import read_state

ROWS = draw(make_mixture(5, 8, 3), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "n_groups": 4, "max_iter": 5, "tol": 0.0}
SEEDS = range(6)  # more than a process keeps contexts of


@pytest.fixture
def store(tmp_path: Path) -> str:
    return write_store(tmp_path / "rows.zarr", ROWS, 100)


@pytest.mark.parametrize("place", ["processes", pytest.param("in_process", marks=pytest.mark.long)])
def test_runs_at_the_same_time(place: str, store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(place)
    known = len(client.get_events(TOPIC))

    def fit(seed: int) -> tuple[Fit, list[IterationRecord]]:
        records: list[IterationRecord] = []
        run = str(tmp_path / f"run-{seed}")
        return fit_distributed(
            store, client=client, run=run, random_state=seed, progress=records.append, **OPTIONS
        ), records

    with ThreadPoolExecutor(len(SEEDS)) as pool:
        fits = list(pool.map(fit, SEEDS, timeout=100))
    for seed, (found, records) in zip(SEEDS, fits, strict=True):
        assert parameters(found.model) == parameters(fit_local(store, random_state=seed, **OPTIONS).model)
        assert found.history == tuple(records)
        state = read_state(str(tmp_path / f"run-{seed}"))
        assert state is not None
        assert [r["free_energy"] for r in state["records"]] == [r.free_energy for r in records]
    events = [event for _, event in client.get_events(TOPIC)[known:]]
    by_run: dict[str, list[float]] = {}
    for event in events:
        by_run.setdefault(event["run"], []).append(event["free_energy"])
    assert sorted(by_run.values()) == sorted([r.free_energy for r in records] for _, records in fits)


@pytest.mark.slow
def test_detached_runs_beside_one_that_is_not(processes: Client, store: str, tmp_path: Path) -> None:
    """Two drivers on a cluster of two threads: they give their places back to the tasks of all."""
    runs = [str(tmp_path / f"run-{seed}") for seed in (0, 1)]
    for seed, run in enumerate(runs):
        fit_distributed(store, client=processes, run=run, random_state=seed, detach=True, **OPTIONS)
    beside = fit_distributed(store, client=processes, random_state=2, **OPTIONS)
    found = [attach(run, processes).result(timeout=100) for run in runs]
    for seed, fit in enumerate([*found, beside]):
        assert parameters(fit.model) == parameters(fit_local(store, random_state=seed, **OPTIONS).model)
    for name in processes.list_datasets():
        processes.unpublish_dataset(name)


def test_one_folder_is_for_one_run_at_a_time(processes: Client, store: str, tmp_path: Path) -> None:
    run, refused = str(tmp_path / "run"), []

    def second(record: IterationRecord) -> None:
        if record.iteration == 1:
            with pytest.raises(RuntimeError, match="another process is working on this run") as error:
                fit_distributed(store, client=processes, run=run, **OPTIONS)
            refused.append(error)

    fit = fit_distributed(store, client=processes, run=run, progress=second, **OPTIONS)
    assert len(refused) == 1
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)
