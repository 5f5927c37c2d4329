"""Uncompressed rows are read from their files, counted byte by byte, and damage is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.store.layouts import FLAT, FLAT_LAYOUTS, RANGES, chunk_file, open_rows

ROW_BYTES = FLAT[0].nbytes


@pytest.mark.parametrize("layout", FLAT_LAYOUTS)
def test_just_the_rows_of_a_range_are_read(tmp_path: Path, layout: str) -> None:
    rows = open_rows(tmp_path, layout)
    for start, stop in RANGES:
        before = rows.bytes_read
        np.testing.assert_array_equal(rows.read(start, stop), FLAT[start:stop])
        assert rows.bytes_read - before == (stop - start) * ROW_BYTES


@pytest.mark.parametrize("size", [0, 3, 70])
@pytest.mark.parametrize("layout", ["files", "flat shards"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, layout: str, size: int) -> None:
    rows = open_rows(tmp_path, layout)
    chunk = chunk_file(tmp_path)
    chunk.write_bytes(chunk.read_bytes()[:size])
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


def test_a_shard_whose_index_was_changed_is_named(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, "flat shards")
    chunk = chunk_file(tmp_path)
    content = bytearray(chunk.read_bytes())
    content[-30] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(OSError, match=r"c/1/0/0/0: the index of the shard is damaged: its checksum does not match"):
        rows.read(0, 1003)
