"""H04 inside of shards: an index or a chunk that contradicts the array is refused by name, a missing one is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from tests.cases.damaged_stores import LAYOUTS, OPTIONS, ROWS, chunk_of, write
from vmfa_dask import fit_local
from vmfa_dask.store.rows import ZarrRows


def index_of(path: Path, edit: Callable[[np.ndarray], None], in_front: bool) -> None:
    """Change the index of a shard of four chunks, its checksum included."""
    content = chunk_of(path).read_bytes()
    old = content[:68] if in_front else content[-68:]
    index = np.frombuffer(old[:64], "<u8").reshape(4, 2).copy()
    edit(index)
    new = index.tobytes() + int(google_crc32c.value(index.tobytes())).to_bytes(4, "little")
    chunk_of(path).write_bytes(new + content[68:] if in_front else content[:-68] + new)


def absent(index: np.ndarray) -> None:
    index[2] = 2**64 - 1


EDITS: dict[str, Callable[[np.ndarray], None]] = {
    "equal places": lambda index: index.__setitem__(2, index[1]),
    "overlapping": lambda index: index.__setitem__((2, 0), index[1, 0] + 8),
    "outside": lambda index: index.__setitem__((2, 0), 10**6),
    "far outside": lambda index: index.__setitem__((2, 0), 2**63),
    "round the end": lambda index: index.__setitem__((2, 0), 2**64 - 8),
    "long": lambda index: index.__setitem__((2, 1), 2**62),
    "no bytes": lambda index: index.__setitem__((2, 1), 0),
    "half absent": lambda index: index.__setitem__((2, 0), 2**64 - 1),
}
SHARDED = [name for name in LAYOUTS if name.startswith("sharded")]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("layout", SHARDED)
@pytest.mark.parametrize("missing", ["refuse", "fill"])
def test_an_index_that_contradicts_itself_is_refused(tmp_path: Path, layout: str, edit: str, missing: str) -> None:
    path = write(tmp_path / "x.zarr", layout)
    index_of(path, EDITS[edit], "front" in layout)
    for start, stop in ((200, 400), (300, 350)):
        with pytest.raises(OSError, match=r"chunk c/1/0"):
            ZarrRows(str(path), missing=missing).read(start, stop)


@pytest.mark.parametrize("at", [0, 7, 1200, 3000])
@pytest.mark.parametrize("n", [1, 24, 68])
def test_bytes_put_into_a_raw_shard_are_refused(tmp_path: Path, at: int, n: int) -> None:
    """They would shift the numbers behind them."""
    path = write(tmp_path / "x.zarr", "sharded raw")
    content = chunk_of(path).read_bytes()
    chunk_of(path).write_bytes(content[:at] + bytes(n) + content[at:])
    for start, stop in ((200, 400), (300, 350)):
        with pytest.raises(OSError, match=r"chunk c/1/0 has bytes between or behind its chunks of 1200 bytes"):
            ZarrRows(str(path)).read(start, stop)


@pytest.mark.parametrize("layout", SHARDED)
def test_a_chunk_that_its_shard_leaves_out_is_missing(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "x.zarr", layout)
    index_of(path, absent, "front" in layout)
    for start, stop in ((200, 400), (300, 350), (0, 600)):
        with pytest.raises(OSError, match=r"chunk c/1/0: 1 of the 4 chunks in this shard are not stored, .* number 2"):
            ZarrRows(str(path)).read(start, stop)
        filled = ZarrRows(str(path), missing="fill").read(start, stop)
        expected = ROWS.copy()
        expected[300:350] = 0
        np.testing.assert_array_equal(filled, expected[start:stop])
    with pytest.raises(ValueError, match=r"1 chunks inside of shards are not stored, the first 1 in chunk c/1/0"):
        fit_local(str(path), **OPTIONS)


@pytest.mark.parametrize("layout", SHARDED)
def test_chunks_of_the_last_shard_beyond_the_rows_may_be_left_out(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "x.zarr", layout, ROWS[:430])
    rows = ZarrRows(str(path))
    rows.check_complete()
    np.testing.assert_array_equal(rows.read(0, 430), ROWS[:430])
