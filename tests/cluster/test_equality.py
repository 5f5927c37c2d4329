"""The same bytes from any executor: serial, in this process, in two processes, in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, images, make_mixture, parameters, write_store
from vmfa_dask import Fit, fit_distributed, fit_local
from vmfa_dask.addresses import MOMENTS
from vmfa_dask.store.exchange import ExchangeFolder

OPTIONS: dict[str, Any] = {"n_components": 12, "n_factors": 3, "neighborhood": 5, "max_iter": 6, "max_warmup_iter": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images with a short last chunk."""
    return write_store(tmp_path_factory.mktemp("equality") / "images.zarr", images(1203, (5, 5, 3)), 50)


def same(a: Fit, b: Fit) -> bool:
    return (
        parameters(a.model) == parameters(b.model)
        and [r.free_energy for r in a.history] == [r.free_energy for r in b.history]
        and [r.n_joints for r in a.history] == [r.n_joints for r in b.history]
    )


# 10 groups are merged in two levels.
@pytest.mark.parametrize("n_groups", [pytest.param(2, marks=pytest.mark.long), 10])
def test_every_executor_gives_the_same_bytes(store: str, n_groups: int, in_process: Client, processes: Client) -> None:
    serial = fit_local(store, n_groups=n_groups, threads=1, **OPTIONS)
    assert same(fit_local(store, n_groups=n_groups, threads=3, **OPTIONS), serial)
    assert same(fit_distributed(store, n_groups=n_groups, client=in_process, **OPTIONS), serial)
    assert same(fit_distributed(store, n_groups=n_groups, client=processes, **OPTIONS), serial)
    other = fit_local(store, n_groups=n_groups, **{**OPTIONS, "random_state": 1})
    assert not same(other, serial)


@pytest.mark.slow
def test_one_process_gives_the_same_bytes(store: str) -> None:
    with (
        local_cluster(1, 2) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        fit = fit_distributed(store, n_groups=5, client=client, **OPTIONS)
    assert same(fit, fit_local(store, n_groups=5, **OPTIONS))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arrays_in_memory_give_the_bytes_of_a_store(tmp_path: Path, processes: Client, precision: str) -> None:
    rows = draw(make_mixture(6, 10, 3), 700).astype(precision)
    options = {**OPTIONS, "precision": precision, "n_groups": 3, "max_iter": 3}
    serial = fit_local(rows, **options)
    assert same(fit_distributed(rows, client=processes, **options), serial)
    assert same(fit_local(write_store(tmp_path / "x.zarr", rows, 700), **options), serial)


def test_cheaper_searches_give_the_same_bytes(store: str, processes: Client) -> None:
    options = {**OPTIONS, "neighborhood": (5, 3, 2), "search_every": 3, "n_groups": 3}
    assert same(fit_distributed(store, client=processes, **options), fit_local(store, **options))


def test_uniform_seeds_give_the_same_bytes(store: str, processes: Client) -> None:
    options = {**OPTIONS, "init_params": "uniform", "max_iter": 2, "n_groups": 3}
    assert same(fit_distributed(store, client=processes, **options), fit_local(store, **options))


def test_component_blocks_give_the_same_bytes(store: str, in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_local(store, n_groups=10, **OPTIONS)
    monkeypatch.setattr("vmfa_dask.run.plan._COMPONENT_BLOCK_BYTES", 5 * 8 * 5 * 75)
    parts = fit_distributed(store, n_groups=10, client=in_process, **OPTIONS)
    assert parameters(parts.model) == parameters(whole.model)
    np.testing.assert_array_equal([r.free_energy for r in parts.history], [r.free_energy for r in whole.history])


def test_moments_that_go_through_files_give_the_same_bytes(
    store: str, processes: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = []
    discard = ExchangeFolder.discard

    def remember(folder: ExchangeFolder, kind: str, version: int) -> None:
        forgotten.extend(folder.place.children(f"{kind}/{version:06d}") if kind == MOMENTS else [])
        discard(folder, kind, version)

    monkeypatch.setattr(ExchangeFolder, "discard", remember)
    monkeypatch.setattr("vmfa_dask.run.plan._COMPONENT_BLOCK_BYTES", 5 * 8 * 5 * 75)
    options = {**OPTIONS, "n_groups": 3}
    assert same(fit_distributed(store, client=processes, **options), fit_local(store, **options))
    assert forgotten, "no moments were in files"
