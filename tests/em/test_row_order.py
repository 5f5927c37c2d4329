"""Rows in the order of their cells: the same training as on rows that the user has sorted so, wherever copies lie."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

from tests.em.runs import free_energies, make_context, train
from tests.samples import draw, images, make_mixture, parameters, write_store
from vmfa_dask import addresses, fit_distributed, fit_local
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.projection import kept_bytes
from vmfa_dask.run.row_copies import RowCells, RowNumbers, SortedRows
from vmfa_dask.run.row_order import bucket_edges, scratch_bytes, slices
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import Start
from vmfa_dask.run.starts.initialization import initialize
from vmfa_dask.run.storage import MemoryStorage, Storage
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.exchange import ExchangeFolder
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.places import place_at
from vmfa_dask.store.version_store import ZarrStorage

OPTIONS: dict[str, Any] = {
    "n_components": 40, "n_factors": 3, "neighborhood": 6, "init_params": "uniform", "locality": True, "max_iter": 2,
    "max_warmup_iter": 2,
}  # fmt: skip
N_GROUPS = 5


def cut(data: NDArray[Any], copies: Storage | None = None, **settings: Any) -> RunContext:
    """A run whose groups have several row blocks."""
    context = make_context(data, Settings(**{**OPTIONS, **settings}), N_GROUPS)
    plan = replace(context.plan, block_rows=100, tile_rows=50)
    return RunContext(context.rows, context.settings, plan, MemoryStorage(), Cores(1), copies)


def stored(context: RunContext, address: Callable[[int], Any], name: str) -> NDArray[Any]:
    """What is stored for all groups, one after the other."""
    return np.concatenate([context.storage.read(address(group))[name] for group in range(N_GROUPS)])


def test_rows_lie_in_the_order_of_their_cells_and_in_each_as_they_were() -> None:
    data = images(1203, (5, 5, 3))
    context = cut(data)
    initialize(SerialExecutor(context))
    numbers, rows = stored(context, RowNumbers, "numbers"), context.rows_in_order()
    np.testing.assert_array_equal(numbers, np.argsort(stored(context, RowCells, "cells"), kind="stable"))
    for start, stop in ((0, 1203), (100, 200), (95, 707), (1200, 1203)):
        np.testing.assert_array_equal(rows.read(start, stop), data.reshape(1203, -1)[numbers[start:stop]])
    assert [rows.describe(row) for row in (0, 700, 1202)] == [f"row {numbers[row]}" for row in (0, 700, 1202)]
    with pytest.raises(KeyError):  # what was on the way is gone
        context.copies.read(SortedRows(0, 0))


def test_slices_are_those_of_a_sort() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 7, 500) * (rng.random(500) < 0.7)
    blocks = np.split(np.arange(500), [90, 200, 200 + 90, 400])
    counts = np.array([np.bincount(cells[block], minlength=8) for block in blocks])  # the last cell has no rows
    edges = bucket_edges(8, 3)
    parts = {
        (b, k): block[np.argsort(cells[block], kind="stable")][
            np.searchsorted(np.sort(cells[block]), edges[k]) : np.searchsorted(np.sort(cells[block]), edges[k + 1])
        ]
        for b, block in enumerate(blocks)
        for k in range(3)
    }
    expected = np.argsort(cells, kind="stable")
    for start, stop in ((0, 500), (0, 1), (123, 345), (499, 500)):
        made = [parts[block, bucket][low:high] for block, bucket, low, high in slices(counts, edges, start, stop)]
        np.testing.assert_array_equal(np.concatenate(made), expected[start:stop])


def test_training_is_that_of_rows_sorted_by_hand() -> None:
    data = images(1203, (5, 5, 3))
    context = cut(data)
    initialize(SerialExecutor(context))
    kept = np.concatenate([context.storage.read(addresses.Posterior(0, g))["components"] for g in range(N_GROUPS)])
    start = Start(context.mixture(0), context.graph(0), kept)
    by_hand = cut(data[stored(context, RowNumbers, "numbers")])
    state, mixture = train(by_hand, start)
    expected_state, expected = train(cut(data))
    assert parameters(mixture) == parameters(expected)
    np.testing.assert_array_equal(free_energies(state), free_energies(expected_state))


@pytest.mark.parametrize("kind", ["mapped", "reused", "zarr"])
def test_copies_in_any_storage_give_the_same_bytes(tmp_path: Path, kind: str) -> None:
    data = images(1203, (5, 5, 3))
    copies: Storage = ZarrStorage(place_at(str(tmp_path))) if kind == "zarr" else ExchangeFolder(str(tmp_path))
    if kind == "reused":
        copies.reuse_files()  # type: ignore[attr-defined]
    assert parameters(train(cut(data, copies))[1]) == parameters(train(cut(data))[1])
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "sorted" in str(path.relative_to(tmp_path))]
    assert sum(path.stat().st_size for path in left) < data.nbytes / 10


def test_a_finished_run_continues_on_its_order(tmp_path: Path) -> None:
    data = images(600, (5, 5, 3))
    fit_local(data, run=tmp_path / "run", **{**OPTIONS, "max_iter": 1})
    more = fit_local(data, run=tmp_path / "run", resume="require", **OPTIONS)
    assert parameters(more.model) == parameters(fit_local(data, **OPTIONS).model)


def test_several_attempts_keep_the_order_of_the_data() -> None:
    context = cut(images(1203, (5, 5, 3)), n_init=2, max_iter=1)
    train(context)
    assert context.rows_in_order() is context.rows
    assert scratch_bytes(context.rows, context.settings) == 0


def test_held_out_rows_are_those_of_the_data(tmp_path: Path, processes: Client) -> None:
    path = write_store(tmp_path / "images.zarr", images(1203, (5, 5, 3)), 50)
    options = {**OPTIONS, "n_groups": 5, "validation": 0.1}
    one = fit_local(path, **options)
    two = fit_distributed(path, client=processes, **options)
    assert parameters(one.model) == parameters(two.model)
    assert [r.validation for r in one.history] == [r.validation for r in two.history]
    other = fit_local(path, **{**options, "locality": False})
    assert one.history[-1].validation == pytest.approx(other.history[-1].validation, abs=10)


def test_copies_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Client) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = images(600, (5, 5, 3))
    fit_local(data, **OPTIONS)
    fit_distributed(data, client=in_process, scratch=str(tmp_path), **OPTIONS)
    assert os.listdir(tmp_path) == []


def test_a_disk_without_room_is_refused_and_the_run_continues_on_one_with_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(1203, (5, 5, 3))
    options = {**OPTIONS, "n_groups": 5, "run": tmp_path / "run", "checkpoint_share": 1.0}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    context = cut(data)
    needed = scratch_bytes(context.rows, context.settings)
    assert 2 * data.nbytes < needed < 2.5 * data.nbytes
    before = kept_bytes(context.rows, replace(context.settings, locality=False))
    assert kept_bytes(context.rows, context.settings) == before + 12 * 1203

    def full(place: FolderPlace) -> int:
        return 10**12 if "vmfa-rows" not in place.path else needed - 1

    with monkeypatch.context() as nearly_full:
        nearly_full.setattr(FolderPlace, "free_bytes", full)
        with pytest.raises(OSError, match=r"of their cells: that takes up to 0\.2 MiB, and 0\.2 MiB are free") as error:
            fit_local(data, **options)
        assert error.value.errno == errno.ENOSPC
        assert "vmfa-rows" in error.value.filename

    class Killed(Exception):
        pass

    def kill(record: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        fit_local(data, progress=kill, **options)
    publish = FolderPlace.publish

    def fails(place: FolderPlace, name: str, write: Callable[[str], None]) -> None:
        if "group-00003-rows" in name:
            raise OSError(errno.ENOSPC, "cannot be written: No space left on device", place.target(name))
        publish(place, name, write)

    with monkeypatch.context() as full_on_the_way:
        full_on_the_way.setattr(FolderPlace, "publish", fails)
        with pytest.raises(OSError, match=r"No space left on device; make room, .* or pass locality=False.*vmfa-rows"):
            fit_local(data, **options)
    fit = fit_local(data, resume="require", **options)
    assert parameters(fit.model) == parameters(fit_local(data, **OPTIONS, n_groups=5).model)
    assert sorted(os.listdir(tmp_path)) == ["run"]


def test_a_given_start_has_no_cells() -> None:
    rows = draw(make_mixture(5, 6, 2), 6_000, dtype="float32")
    start = make_mixture(2_000, 6, 2, dtype="float32")
    fit = fit_local(rows, n_components=2_000, n_factors=2, start=start, max_iter=1, max_warmup_iter=1, verbose=0)
    assert not fit.settings.locality
    with pytest.raises(ValueError, match=r"^locality=True: expected no start"):
        fit_local(rows, n_components=2_000, n_factors=2, start=start, locality=True)
