"""Compressed rows are decoded from their files once, and damage is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numcodecs.zstd import compress

from tests.store.layouts import DATA, FLAT, chunk_file, open_rows, stored_bytes
from vmfa_dask.store.decoding import zstd_size
from vmfa_dask.store.rows import ZarrRows


def test_a_missing_chunk_is_refused_or_filled(tmp_path: Path) -> None:
    refused = open_rows(tmp_path, "zstd")
    chunk_file(tmp_path).unlink()
    with pytest.raises(OSError, match=r"rows 0:1003 cannot be read: chunk c/1/0/0/0 is not stored"):
        refused.read(0, 1003)
    filled = ZarrRows(str(tmp_path / "x.zarr"), missing="fill").read(0, 1003)
    np.testing.assert_array_equal(filled[100:200], 0)
    np.testing.assert_array_equal(np.delete(filled, slice(100, 200), 0), np.delete(FLAT, slice(100, 200), 0))


@pytest.mark.parametrize("layout", ["zstd", "blosc", "shards", "blosc in shards", "gzip in shards"])
@pytest.mark.parametrize("fault", ["cut short", "changed", "empty"])
def test_damage_is_named(tmp_path: Path, layout: str, fault: str) -> None:
    rows = open_rows(tmp_path, layout)
    content = bytearray(chunk_file(tmp_path).read_bytes())
    content[8:40] = bytes(value ^ 0xFF for value in content[8:40])
    damaged = {"cut short": content[: len(content) // 2], "changed": content, "empty": content[:0]}
    chunk_file(tmp_path).write_bytes(damaged[fault])
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


@pytest.mark.parametrize("n_rows", [50, 150])
def test_a_chunk_of_another_size_is_refused(tmp_path: Path, n_rows: int) -> None:
    """The codecs would leave the rest of the block as it was, which are other rows."""
    rows = open_rows(tmp_path, "zstd")
    rows.read(0, 1003)
    chunk_file(tmp_path).write_bytes(compress(DATA[:n_rows].tobytes()))
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


def test_a_chunk_larger_than_a_range_is_decoded_once(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, "one chunk")
    parts = [rows.read(start, min(start + 100, 1003)) for start in range(0, 1003, 100)]
    np.testing.assert_array_equal(np.concatenate(parts), FLAT)
    assert rows.bytes_read == stored_bytes(tmp_path)


@pytest.mark.parametrize("size", [1, 7, 60, 100, 250, 1003])
def test_ranges_that_follow_one_another_decode_each_chunk_once(tmp_path: Path, size: int) -> None:
    rows = open_rows(tmp_path, "zstd")
    parts = [rows.read(start, min(start + size, 1003)) for start in range(0, 1003, size)]
    np.testing.assert_array_equal(np.concatenate(parts), FLAT)
    assert rows.bytes_read == stored_bytes(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 100, 255, 256, 300, 65_535, 65_791, 65_792, 3_000_000])
@pytest.mark.parametrize("checksum", [False, True])
def test_the_size_of_a_frame_is_read_from_its_header(size: int, checksum: bool) -> None:
    frame = np.frombuffer(compress(bytes(size), 1, checksum), np.uint8)
    assert zstd_size(frame) == size


def test_a_frame_without_its_size_is_read(tmp_path: Path) -> None:
    """As writers make them that compress a stream: 6 bytes that announce no size, then raw blocks."""
    rows = open_rows(tmp_path, "zstd")
    raw, frame = DATA[100:200].tobytes(), bytearray(b"\x28\xb5\x2f\xfd\x00\x58")
    frame += (len(raw) << 3 | 1).to_bytes(3, "little") + raw
    assert zstd_size(np.frombuffer(bytes(frame), np.uint8)) is None
    chunk_file(tmp_path).write_bytes(frame)
    np.testing.assert_array_equal(rows.read(0, 1003), FLAT)
