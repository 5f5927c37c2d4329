"""Compressed rows decoded from their files equal what Zarr reads, bytes are counted, and damage is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from numcodecs.zstd import compress
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import fully_qualified_name, register_pipeline

from tests.samples import images, write_store
from vmfa_dask.store.compressed import CompressedFiles
from vmfa_dask.store.decoding import zstd_size
from vmfa_dask.store.rows import ZarrRows

DATA = images(1003, (4, 5, 3)).astype("int16")
FLAT = DATA.reshape(1003, -1)
LAYOUTS: dict[str, dict[str, Any]] = {
    "zstd": {"chunks": (100, 4, 5, 3), "compressors": "auto"},
    "zstd with checksums": {"chunks": (100, 4, 5, 3), "compressors": ZstdCodec(level=3, checksum=True)},
    "one chunk": {"chunks": (1003, 4, 5, 3), "compressors": "auto"},
    "shards": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3), "compressors": "auto"},
    "blosc": {"chunks": (100, 4, 5, 3), "compressors": BloscCodec(cname="lz4", typesize=2)},
    "blosc in shards": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3), "compressors": BloscCodec(typesize=2)},
    "format 2": {"chunks": (100, 4, 5, 3), "zarr_format": 2, "compressors": numcodecs.Zstd()},
    "blosc of format 2": {"chunks": (100, 4, 5, 3), "zarr_format": 2, "compressors": numcodecs.Blosc()},
}
OTHER: dict[str, dict[str, Any]] = {
    "gzip": {"chunks": (100, 4, 5, 3), "compressors": GzipCodec()},
    "gzip in shards": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3), "compressors": GzipCodec()},
    "two codecs": {"chunks": (100, 4, 5, 3), "compressors": [ZstdCodec(), Crc32cCodec()]},
    "parts of rows": {"chunks": (100, 2, 5, 3), "compressors": "auto"},
    "gzip of format 2": {"chunks": (100, 4, 5, 3), "zarr_format": 2, "compressors": numcodecs.GZip()},
    "no compressor": {"chunks": (100, 4, 5, 3), "compressors": None},
}
RANGES = [(0, 1003), (0, 1), (1002, 1003), (150, 250), (199, 201), (1000, 1003), (33, 777)]


def store(path: Path, options: dict[str, Any]) -> ZarrRows:
    return ZarrRows(write_store(path / "x.zarr", DATA, **options))


def refuse_zarr(rows: ZarrRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_array", None)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_decoded_without_zarr(
    tmp_path: Path, layout: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = store(tmp_path, LAYOUTS[layout])
    rows.use_threads(threads)
    refuse_zarr(rows, monkeypatch)
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), FLAT[start:stop])


@pytest.mark.parametrize("layout", OTHER)
def test_other_layouts_are_read_otherwise(tmp_path: Path, layout: str) -> None:
    rows = store(tmp_path, OTHER[layout])
    assert not CompressedFiles.are_rows(rows._plain)
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), FLAT[start:stop])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_counted_as_they_are_stored(tmp_path: Path, layout: str) -> None:
    rows = store(tmp_path, LAYOUTS[layout])
    for start in range(0, 1003, 200):
        rows.read(start, min(start + 200, 1003))
    stored = sum(f.stat().st_size for f in (tmp_path / "x.zarr").rglob("*") if f.is_file() and f.name[0].isdigit())
    assert rows.bytes_read == pytest.approx(stored, rel=0.01)


class OwnPipeline(BatchedCodecPipeline):
    """Another class than Zarr's."""


def test_another_codec_pipeline_is_the_choice_of_the_user(tmp_path: Path) -> None:
    register_pipeline(OwnPipeline)
    with zarr.config.set({"codec_pipeline.path": fully_qualified_name(OwnPipeline)}):
        rows = store(tmp_path, LAYOUTS["zstd"])
        assert rows._compressed is None
        np.testing.assert_array_equal(rows.read(33, 777), FLAT[33:777])


def test_chunks_that_a_shard_leaves_out_are_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(
        tmp_path / "y.zarr",
        shape=DATA.shape,
        dtype=DATA.dtype,
        chunks=(50, 4, 5, 3),
        shards=(400, 4, 5, 3),
        fill_value=7,
    )
    expected = np.full_like(FLAT, 7)
    for start in (300, 0, 850, 500):
        array[start : start + 50] = DATA[start : start + 50]
        expected[start : start + 50] = FLAT[start : start + 50]
    rows = ZarrRows(str(tmp_path / "y.zarr"), missing="fill")
    refuse_zarr(rows, monkeypatch)
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), expected[start:stop])


def chunk_file(tmp_path: Path) -> Path:
    return tmp_path / "x.zarr" / "c" / "1" / "0" / "0" / "0"


def test_a_missing_chunk_is_refused_or_filled(tmp_path: Path) -> None:
    refused = store(tmp_path, LAYOUTS["zstd"])
    chunk_file(tmp_path).unlink()
    with pytest.raises(OSError, match=r"rows 0:1003 cannot be read: chunk c/1/0/0/0 is not stored"):
        refused.read(0, 1003)
    filled = ZarrRows(str(tmp_path / "x.zarr"), missing="fill").read(0, 1003)
    np.testing.assert_array_equal(filled[100:200], 0)
    np.testing.assert_array_equal(np.delete(filled, slice(100, 200), 0), np.delete(FLAT, slice(100, 200), 0))


@pytest.mark.parametrize("layout", ["zstd", "blosc", "shards", "blosc in shards", "gzip in shards"])
@pytest.mark.parametrize("fault", ["cut short", "changed", "empty"])
def test_damage_is_named(tmp_path: Path, layout: str, fault: str) -> None:
    rows = store(tmp_path, {**LAYOUTS, **OTHER}[layout])
    content = bytearray(chunk_file(tmp_path).read_bytes())
    content[8:40] = bytes(value ^ 0xFF for value in content[8:40])
    damaged = {"cut short": content[: len(content) // 2], "changed": content, "empty": content[:0]}
    chunk_file(tmp_path).write_bytes(damaged[fault])
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


@pytest.mark.parametrize("n_rows", [50, 150])
def test_a_chunk_of_another_size_is_refused(tmp_path: Path, n_rows: int) -> None:
    """The codecs would leave the rest of the block as it was, which are other rows."""
    rows = store(tmp_path, LAYOUTS["zstd"])
    rows.read(0, 1003)
    chunk_file(tmp_path).write_bytes(compress(DATA[:n_rows].tobytes()))
    with pytest.raises(OSError, match=r"x\.zarr: rows 0:1003 cannot be read: .*c/1/0/0/0"):
        rows.read(0, 1003)


@pytest.mark.parametrize("size", [0, 1, 100, 255, 256, 300, 65_535, 65_791, 65_792, 3_000_000])
@pytest.mark.parametrize("checksum", [False, True])
def test_the_size_of_a_frame_is_read_from_its_header(size: int, checksum: bool) -> None:
    frame = np.frombuffer(compress(bytes(size), 1, checksum), np.uint8)
    assert zstd_size(frame) == size


def test_a_frame_without_its_size_is_read(tmp_path: Path) -> None:
    """As writers make them that compress what streams in: 6 bytes that say nothing of it, then raw blocks."""
    rows = store(tmp_path, LAYOUTS["zstd"])
    raw, frame = DATA[100:200].tobytes(), bytearray(b"\x28\xb5\x2f\xfd\x00\x58")
    frame += (len(raw) << 3 | 1).to_bytes(3, "little") + raw
    assert zstd_size(np.frombuffer(bytes(frame), np.uint8)) is None
    chunk_file(tmp_path).write_bytes(frame)
    np.testing.assert_array_equal(rows.read(0, 1003), FLAT)
