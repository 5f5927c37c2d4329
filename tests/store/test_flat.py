"""Uncompressed rows read from their files equal what Zarr reads, are counted byte by byte, and damage is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from tests.samples import images, write_store
from vmfa_dask.store.flat import FlatFiles
from vmfa_dask.store.rows import ZarrRows

DATA = images(1003, (4, 5, 3)).astype("int16")
FLAT = DATA.reshape(1003, -1)
ROW_BYTES = FLAT[0].nbytes
PLAIN: dict[str, dict[str, Any]] = {
    "files": {"chunks": (100, 4, 5, 3)},
    "one file": {"chunks": (1003, 4, 5, 3)},
    "format 2": {"chunks": (100, 4, 5, 3), "zarr_format": 2},
    "shards": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3)},
    "one shard": {"chunks": (7, 4, 5, 3), "shards": (1008, 4, 5, 3)},
}
OTHER: dict[str, dict[str, Any]] = {
    "compressed": {"chunks": (100, 4, 5, 3), "compressors": "auto"},
    "compressed shards": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3), "compressors": "auto"},
    "parts of rows": {"chunks": (100, 2, 5, 3)},
    "parts of rows in shards": {"chunks": (50, 2, 5, 3), "shards": (200, 4, 5, 3)},
    "Fortran": {"chunks": (100, 4, 5, 3), "zarr_format": 2, "order": "F"},
    "big endian": {"chunks": (100, 4, 5, 3), "serializer": BytesCodec(endian="big")},
    "checksums": {
        "chunks": (200, 4, 5, 3),
        "serializer": ShardingCodec(chunk_shape=(50, 4, 5, 3), codecs=[BytesCodec(), Crc32cCodec()]),
    },
    "index in front": {
        "chunks": (200, 4, 5, 3),
        "serializer": ShardingCodec(chunk_shape=(50, 4, 5, 3), codecs=[BytesCodec()], index_location="start"),
    },
}
RANGES = [(0, 1003), (0, 1), (1002, 1003), (150, 250), (199, 201), (1000, 1003), (33, 777)]


def store(path: Path, options: dict[str, Any]) -> ZarrRows:
    return ZarrRows(write_store(path / "x.zarr", DATA, **{"compressors": None, **options}))


@pytest.mark.parametrize("layout", PLAIN)
def test_files_of_whole_rows_are_read_and_counted(tmp_path: Path, layout: str) -> None:
    rows = store(tmp_path, PLAIN[layout])
    assert FlatFiles.are_rows(rows._plain)
    for start, stop in RANGES:
        before = rows.bytes_read
        np.testing.assert_array_equal(rows.read(start, stop), FLAT[start:stop])
        assert rows.bytes_read - before == (stop - start) * ROW_BYTES


@pytest.mark.parametrize("layout", OTHER)
def test_other_layouts_are_read_by_zarr(tmp_path: Path, layout: str) -> None:
    rows = store(tmp_path, OTHER[layout])
    assert not FlatFiles.are_rows(rows._plain)
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), FLAT[start:stop])


@pytest.mark.parametrize("layout", [name for name in OTHER if name != "parts of rows in shards"])
def test_what_zarr_reads_is_counted_as_it_is_stored(tmp_path: Path, layout: str) -> None:
    rows = store(tmp_path, OTHER[layout])
    for start in range(0, 1003, 200):
        rows.read(start, min(start + 200, 1003))
    stored = sum(f.stat().st_size for f in (tmp_path / "x.zarr").rglob("*") if f.is_file() and f.name != "zarr.json")
    assert rows.bytes_read == pytest.approx(stored, rel=0.01)


def test_chunks_of_a_shard_that_were_written_in_any_order(tmp_path: Path) -> None:
    array = zarr.create_array(
        tmp_path / "y.zarr",
        shape=DATA.shape,
        dtype=DATA.dtype,
        chunks=(50, 4, 5, 3),
        shards=(400, 4, 5, 3),
        compressors=None,
        fill_value=7,
        config={"write_empty_chunks": False},
    )
    expected = np.full_like(FLAT, 7)
    for start in (300, 0, 850, 100):  # rows 50 to 100, 150 to 300 and others are never written
        array[start : start + 50] = DATA[start : start + 50]
        expected[start : start + 50] = FLAT[start : start + 50]
    rows = ZarrRows(str(tmp_path / "y.zarr"), missing="fill")
    assert FlatFiles.are_rows(rows._plain)
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), expected[start:stop])


@pytest.mark.parametrize("size", [0, 3, 70])
@pytest.mark.parametrize("layout", ["files", "shards"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, layout: str, size: int) -> None:
    rows = store(tmp_path, PLAIN[layout])
    chunk = tmp_path / "x.zarr" / "c" / "1" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:size])
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


def test_a_shard_whose_index_was_changed_is_named(tmp_path: Path) -> None:
    rows = store(tmp_path, PLAIN["shards"])
    chunk = tmp_path / "x.zarr" / "c" / "1" / "0" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[-30] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(OSError, match=r"c/1/0/0/0: the index of the shard is damaged|c/1/0/0/0: .*checksum"):
        rows.read(0, 1003)


def test_a_chunk_larger_than_what_is_asked_for_is_decoded_once(tmp_path: Path) -> None:
    rows = store(tmp_path, {"chunks": (1003, 4, 5, 3), "compressors": "auto"})
    size = (tmp_path / "x.zarr" / "c" / "0" / "0" / "0" / "0").stat().st_size
    parts = [rows.read(start, min(start + 100, 1003)) for start in range(0, 1003, 100)]
    np.testing.assert_array_equal(np.concatenate(parts), FLAT)
    assert rows.bytes_read == size


@pytest.mark.parametrize("size", [1, 7, 60, 100, 250, 1003])
def test_ranges_that_follow_one_another_decode_each_chunk_once(tmp_path: Path, size: int) -> None:
    rows = store(tmp_path, OTHER["compressed"])
    stored = sum(f.stat().st_size for f in (tmp_path / "x.zarr" / "c").rglob("*") if f.is_file())
    parts = [rows.read(start, min(start + size, 1003)) for start in range(0, 1003, size)]
    np.testing.assert_array_equal(np.concatenate(parts), FLAT)
    assert rows.bytes_read == stored
