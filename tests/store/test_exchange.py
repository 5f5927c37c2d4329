"""Versions in work: files serve again on one machine, and nobody sees anything but what was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vmfa_dask import addresses
from vmfa_dask.store import exchange
from vmfa_dask.store.exchange import ExchangeFolder, exchange_at, running_kernel

pytestmark = pytest.mark.skipif(
    running_kernel() is None, reason="needs Linux: files are reused only where /proc names the boot"
)


def block(value: float, n: int = 50) -> dict[str, np.ndarray]:
    return {"means": np.full((n, 7), value, np.float32), "weights": np.full(n, value)}


def inodes(folder: Path) -> set[int]:
    return {file.stat().st_ino for file in folder.rglob("*.npy")}


def other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "running_kernel", lambda: "another")


def test_files_of_a_discarded_version_serve_the_next_one(tmp_path: Path) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.reuse_files()
    folder.write(addresses.Parameters(0, 0), block(0))
    before = inodes(tmp_path / "parameters")
    folder.discard("parameters", 0)
    assert not (tmp_path / "parameters" / "000000").exists()
    folder.write(addresses.Posterior(3, 0), block(5))
    assert not before & inodes(tmp_path / "posterior"), "those of another kind are left alone"
    folder.write(addresses.Parameters(1, 0), block(1))
    assert inodes(tmp_path / "parameters") == before
    for name, array in folder.read(addresses.Parameters(1, 0)).items():
        np.testing.assert_array_equal(array, block(1)[name])


def test_without_reuse_files_go_away(tmp_path: Path) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.write(addresses.Parameters(0, 0), block(0))
    folder.discard("parameters", 0)
    assert not inodes(tmp_path)
    folder.write(addresses.Parameters(1, 0), block(1))
    np.testing.assert_array_equal(folder.read(addresses.Parameters(1, 0))["means"], block(1)["means"])


def test_files_of_another_size_and_of_other_arrays_are_replaced(tmp_path: Path) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.reuse_files()
    folder.write(addresses.Parameters(0, 0), block(0))
    folder.discard("parameters", 0)
    mapped = block(2, 20)
    folder.write(addresses.Parameters(1, 0), {"means": mapped["means"]})
    assert list(folder.read(addresses.Parameters(1, 0))) == ["means"]
    np.testing.assert_array_equal(folder.read(addresses.Parameters(1, 0))["means"], mapped["means"])


def test_who_has_mapped_a_file_that_is_replaced_keeps_its_values(tmp_path: Path) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.reuse_files()
    folder.write(addresses.Parameters(0, 0), block(7, 5000))
    held = folder.read(addresses.Parameters(0, 0))["means"]
    folder.discard("parameters", 0)
    folder.write(addresses.Parameters(1, 0), block(1, 20))  # a file that is cut would end this process
    assert np.all(held == 7)


@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (3, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64"])
def test_all_kinds_of_arrays_come_back(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.reuse_files()
    for version, order in enumerate("CF"):
        array = np.asarray(np.arange(np.prod(shape)).reshape(shape), dtype=dtype, order=order)  # type: ignore[call-overload]
        folder.write(addresses.Parameters(version, 0), {"array": array})
        found = folder.read(addresses.Parameters(version, 0))["array"]
        assert (found.dtype, found.shape) == (array.dtype, shape)
        np.testing.assert_array_equal(found, array)
        folder.discard("parameters", version)


def test_a_process_of_another_machine_ends_reuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ExchangeFolder(str(tmp_path))
    here.reuse_files()
    here.write(addresses.Parameters(0, 0), block(0))
    here.discard("parameters", 0)
    with monkeypatch.context() as patch:
        other_machine(patch)
        there = exchange_at(str(tmp_path))
    assert not any(path.name.startswith(("spares", "gone")) for path in tmp_path.iterdir())
    here.write(addresses.Parameters(1, 0), block(1))
    np.testing.assert_array_equal(there.read(addresses.Parameters(1, 0))["means"], block(1)["means"])
    here.discard("parameters", 1)
    assert not inodes(tmp_path), "its own process does not begin again"


def test_spare_files_do_not_pile_up(tmp_path: Path) -> None:
    folder = ExchangeFolder(str(tmp_path))
    folder.reuse_files()
    for version in range(5):
        for number in range(2 if version % 2 else 4):
            folder.write(addresses.Parameters(version, number), block(version))
        folder.discard("parameters", version)
    assert len(inodes(tmp_path)) <= 8
