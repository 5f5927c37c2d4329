"""The packed form of a version: processes that share memory map one, which M-steps have made; others make their own."""

from __future__ import annotations

import errno
import mmap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.em.runs import make_context, train
from tests.samples import draw, make_mixture, make_start, parameters
from vmfa_dask.addresses import PACKED_ARRAYS
from vmfa_dask.em.packed import SMALL_ARRAYS, PackedMixture, pack_mixture
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.packed_versions import PackedArrays, unpacked_blocks
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.start import write_given_start
from vmfa_dask.run.starts.initialization import initialize
from vmfa_dask.run.state import RunState
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.store.exchange import ExchangeFolder, running_kernel
from vmfa_dask.values import Mixture

pytestmark = pytest.mark.skipif(
    running_kernel() is None, reason="needs Linux: memory is shared where /proc names the boot"
)

SETTINGS = Settings.paper(8, 3, truncation=3, neighborhood=4, tol=0, warmup_tol=0, max_warmup_iter=2, max_iter=4)
ROWS = draw(make_mixture(8, 9, 3, spread=2.0), 700).astype(np.float32)
BLOCKS = ((0, 3), (3, 6), (6, 8))


class Folder(ExchangeFolder):
    """Remembers what was written in parts."""

    def __init__(self, path: Path, full: bool = False) -> None:
        super().__init__(str(path))
        self.reuse_files()
        self.parts: list[tuple[int, int]] = []
        self._full = full

    def write_part(self, address: Any, length: int, start: int, arrays: Any) -> None:
        if self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.parts.append((address.version, start))
        super().write_part(address, length, start, arrays)


def context_with(storage: Any = None, settings: Settings = SETTINGS) -> RunContext:
    context = make_context(ROWS, settings, n_groups=3)
    context.plan = replace(context.plan, component_blocks=BLOCKS)
    context.storage = context.storage if storage is None else storage
    return context


def assert_packed(found: PackedMixture, mixture: Mixture) -> None:
    expected = pack_mixture(mixture, Cores(1))
    for name in (*SMALL_ARRAYS, "packed", "packed_precise"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def root_of(array: Any) -> Any:
    """What holds the memory of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def uneven() -> Mixture:
    """Components of which float32 would lose digits, in two blocks, beside others."""
    mixture = make_mixture(8, 9, 3, seed=4, spread=2.0, dtype="float32")
    noise = mixture.noise_variances.copy()
    noise[[1, 2, 7]] *= 1e-7
    return replace(mixture, noise_variances=noise)


def test_blocks_make_the_packed_form_of_the_whole(tmp_path: Path) -> None:
    mixture = uneven()
    assert len(pack_mixture(mixture, Cores(1)).packed_precise) == 3
    for storage in (None, Folder(tmp_path)):
        context = context_with(storage)
        write_given_start(context.storage, SETTINGS, context.plan, make_start(mixture, len(ROWS), 3, 4))
        if storage is not None:
            assert unpacked_blocks(storage, context.plan, 0) == [0, 1, 2]
            Training(SerialExecutor(context))._share_packed(0)
            assert unpacked_blocks(storage, context.plan, 0) == []
        assert_packed(context.packed(0), mixture)
        np.testing.assert_array_equal(context.centers(0).means, mixture.means)
        np.testing.assert_array_equal(context.centers(0).weights, mixture.weights)


@pytest.mark.parametrize("changes", [{}, {"noise": "shared"}, {"empty_components": "split"}])
def test_a_version_is_packed_once(tmp_path: Path, changes: dict[str, Any]) -> None:
    """By its M-step, or before the first pass that needs it; two processes map it, and the result is the same."""
    folder, settings = Folder(tmp_path), replace(SETTINGS, **changes)
    context, other = context_with(folder, settings), context_with(folder, settings)

    def look(state: RunState) -> None:
        if state.records and state.phase == "training" and not changes:
            mapped = [c.packed(state.parameters).packed for c in (context, other)]
            assert all(isinstance(root_of(array), mmap.mmap) for array in mapped)
            np.testing.assert_array_equal(*mapped)

    state = Training(SerialExecutor(context), on_state=look).run()
    assert folder.parts == [(version, start) for version in range(5) for start, _ in BLOCKS]
    assert not folder.holds(PackedArrays(state.parameters - 1))
    known = train(context_with(settings=settings))
    assert parameters(context.mixture(state.parameters)) == parameters(known[1])
    assert [r.free_energy for r in state.records] == [r.free_energy for r in known[0].records]


def test_older_parameters_are_packed_again(tmp_path: Path) -> None:
    """After the free energy has fallen: what the last M-step made is dropped."""
    context = context_with(Folder(tmp_path))
    training = Training(SerialExecutor(context))
    state = RunState.first(SETTINGS, initialize(training.executor, None))
    while state.passes < 2 or state.phase != "training":
        state = training.advance(state)
    worse = replace(state.records[-1], free_energy=state.records[-1].free_energy + 1e6)
    state = training.advance(replace(state, records=(*state.records[:-1], worse)))
    assert state.fell
    assert unpacked_blocks(context.storage, context.plan, state.parameters) == [0, 1, 2]
    assert unpacked_blocks(context.storage, context.plan, state.parameters + 2) == [0, 1, 2]
    with pytest.raises(KeyError):
        context.mixture(state.parameters + 2)
    assert training.advance(state).phase == "done"
    assert_packed(context.packed(state.parameters), context.mixture(state.parameters))


def test_without_room_each_process_packs_for_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, known = (train(context_with(storage))[1] for storage in (Folder(tmp_path, full=True), None))
    assert "component block 2 is not shared" in caplog.text
    assert parameters(found) == parameters(known)


def test_files_of_parts_serve_once(tmp_path: Path) -> None:
    """Whoever has read them may keep them, and a task that was stopped while it wrote does not write into others."""
    folder, address, next_one = Folder(tmp_path), PackedArrays(0), PackedArrays(1)
    folder.write_part(address, 4, 2, {"means": np.ones((2, 3), np.float32)})
    folder.write_part(address, 4, 0, {"means": np.zeros((2, 3), np.float32)})
    means = folder.map_parts(address)["means"]
    assert means[:, 0].tolist() == [0, 0, 1, 1]
    assert means.ctypes.data % 64 == 0
    folder.discard(PACKED_ARRAYS, 0)
    folder.write_part(next_one, 4, 0, {"means": np.full((4, 3), 7, np.float32)})
    assert means[:, 0].tolist() == [0, 0, 1, 1]
