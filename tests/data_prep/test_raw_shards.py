"""Shards that are copied have the bytes of those that Zarr writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from vmfa_dask.data_prep import shards
from vmfa_dask.data_prep.shards import write_store
from vmfa_dask.data_prep.tables import Outline, RawTable


def tables(folder: Path, sizes: list[int], features: tuple[int, ...], dtype: str, offset: int = 0) -> list[RawTable]:
    rng, found = np.random.default_rng(0), []
    for k, n in enumerate(sizes):
        rows = rng.integers(0, 200, (n, *features)).astype(dtype)
        file = folder / f"{k}.rows"
        file.write_bytes(b"x" * offset + rows.tobytes())
        found.append(RawTable(file, rows.shape, rows.dtype, offset))
    return found


def files_of(store: Path) -> dict[str, bytes]:
    return {str(file.relative_to(store)): file.read_bytes() for file in store.rglob("*") if file.is_file()}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("sizes", [[1], [10], [7, 0, 25], [64], [320, 1], [3, 300, 40]])
@pytest.mark.parametrize("offset", [0, 128])
def test_copies_are_what_zarr_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, sizes: list[int], offset: int
) -> None:
    outline = Outline(tables(tmp_path, sizes, (4, 3), dtype, offset), ("sample", "y", "x"), rows_per_chunk=5)
    write_store(tmp_path / "copied", {"": outline}, {})
    monkeypatch.setattr(shards, "_is_copied", lambda table, kind: False)
    write_store(tmp_path / "written", {"": outline}, {})
    assert files_of(tmp_path / "copied") == files_of(tmp_path / "written")
    rows = np.concatenate([table.read(0, table.shape[0]) for table in outline.tables])
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "copied", mode="r")[:], rows)


@pytest.mark.parametrize("compress", [False, True])
def test_other_byte_orders_and_compressed_arrays_hold_the_values(tmp_path: Path, compress: bool) -> None:
    found = tables(tmp_path, [30], (4,), "<u1" if compress else ">f4")
    write_store(tmp_path / "store", {"": Outline(found, ("sample", "x"), 8, compress)}, {})
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "store", mode="r")[:], found[0].read(0, 30))


def test_a_file_that_ends_too_early_is_named_and_no_shard_is_left(tmp_path: Path) -> None:
    found = tables(tmp_path, [30], (4,), "uint8")
    found[0].path.write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"0\.rows: ends 20 bytes before"):
        write_store(tmp_path / "store", {"": Outline(found, ("sample", "x"))}, {})
    assert [file.name for file in (tmp_path / "store").rglob("*") if file.is_file()] == ["zarr.json"]
