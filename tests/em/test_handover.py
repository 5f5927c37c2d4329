"""Moments on their way from groups of rows to component blocks: in results or in files, the same sums."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.em.runs import free_energies, make_context, train
from tests.samples import draw, make_mixture, make_start
from vmfa_dask import addresses
from vmfa_dask.addresses import MOMENTS, Address
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import write_given_start
from vmfa_dask.run.step import Step
from vmfa_dask.run.tasks.e_step import run_e_step
from vmfa_dask.run.tasks.m_step import update_block
from vmfa_dask.store import exchange
from vmfa_dask.store.exchange import ExchangeFolder, running_kernel

pytestmark = pytest.mark.skipif(
    running_kernel() is None, reason="needs Linux: moments are handed over in files only where /proc names the boot"
)

SETTINGS = Settings.paper(8, 3, truncation=3, neighborhood=4, tol=0, warmup_tol=0, max_warmup_iter=2, max_iter=4)
ROWS = draw(make_mixture(8, 9, 3, spread=2.0), 700).astype(np.float32)
BLOCKS = ((0, 3), (3, 6), (6, 8))
N_GROUPS = 5


class Folder(ExchangeFolder):
    """Remembers which versions of moments were written."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.reuse_files()
        self.written: list[Address] = []

    def write(self, address: Address, arrays: Any) -> None:
        if address.kind == MOMENTS:
            self.written.append(address)
        super().write(address, arrays)


def context_with(storage: Folder | None, n_groups: int = N_GROUPS, settings: Settings = SETTINGS) -> RunContext:
    context = make_context(ROWS, settings, n_groups)
    context.plan = replace(context.plan, component_blocks=BLOCKS)
    context.storage = context.storage if storage is None else storage
    return context


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_moments_in_files_change_no_bit(tmp_path: Path, precision: str) -> None:
    folder, settings = Folder(tmp_path), replace(SETTINGS, precision=precision)
    (state, found), (known_state, known) = (train(context_with(s, settings=settings)) for s in (folder, None))
    np.testing.assert_array_equal(free_energies(state), free_energies(known_state))
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))
    training = [record.iteration for record in state.records if record.phase == "training"]
    expected = [
        addresses.GroupMoments(iteration, group, block)
        for iteration in training
        for group in range(N_GROUPS)
        for block in range(len(BLOCKS))
    ]
    assert folder.written == expected
    assert not folder.place.children(MOMENTS), "moments go away with their pass"


class FullDisk(Folder):
    """Has room for the moments of the first blocks alone."""

    def _write(self, kind: str, target: Any, arrays: Any) -> None:
        if kind == MOMENTS and len(self.written) % 4 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super()._write(kind, target, arrays)


def test_without_room_moments_stay_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, known = (train(context_with(s))[1] for s in (FullDisk(tmp_path), None))
    assert "moments of group 1 stay in memory" in caplog.text
    assert "No space left on device" in caplog.text
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))


def test_many_parts_stay_results_of_tasks(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(context_with(folder, n_groups=6))
    assert not folder.written


def test_another_machine_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a pass, too: some moments are in files and some are not."""
    step = Step(iteration=0, parameters=0, graph=0, search=True, update=True)
    start = make_start(make_mixture(8, 9, 3, seed=4, spread=2.0), len(ROWS), 3, 4)
    found = []
    for storage in (Folder(tmp_path), None):
        context = context_with(storage)
        write_given_start(context.storage, SETTINGS, context.plan, start)
        results = []
        for group in range(N_GROUPS):
            if storage is not None and group == 2:
                with monkeypatch.context() as other:
                    other.setattr(exchange, "running_kernel", lambda: "another")
                    ExchangeFolder(str(tmp_path))
            results.append(run_e_step(context, group, step))
        if storage is not None:
            assert [result.stored for result in results] == [(0, 0), (0, 1), None, None, None]
        for block in range(len(BLOCKS)):
            update_block(context, block, step, *results)
        found.append(context.mixture(1))
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
