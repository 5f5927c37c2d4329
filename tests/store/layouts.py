"""Rows in the layouts that are read without Zarr, and in others, for the tests of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

from tests.samples import images, write_store
from vmfa_dask.store.rows import ZarrRows

DATA = images(1003, (4, 5, 3)).astype("int16")
FLAT = DATA.reshape(1003, -1)
RANGES = [(0, 1003), (0, 1), (1002, 1003), (150, 250), (199, 201), (1000, 1003), (33, 777)]

ROWS_100 = {"chunks": (100, 4, 5, 3)}
SHARDS_200 = {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3)}
# Read from their files: uncompressed.
FLAT_LAYOUTS: dict[str, dict[str, Any]] = {
    "files": {**ROWS_100, "compressors": None},
    "one file": {"chunks": (1003, 4, 5, 3), "compressors": None},
    "files of format 2": {**ROWS_100, "zarr_format": 2, "compressors": None},
    "flat shards": {**SHARDS_200, "compressors": None},
    "one shard": {"chunks": (7, 4, 5, 3), "shards": (1008, 4, 5, 3), "compressors": None},
}
# Read from their files: compressed.
COMPRESSED_LAYOUTS: dict[str, dict[str, Any]] = {
    "zstd": {**ROWS_100, "compressors": "auto"},
    "zstd with checksums": {**ROWS_100, "compressors": ZstdCodec(level=3, checksum=True)},
    "one chunk": {"chunks": (1003, 4, 5, 3), "compressors": "auto"},
    "shards": {**SHARDS_200, "compressors": "auto"},
    "blosc": {**ROWS_100, "compressors": BloscCodec(cname="lz4", typesize=2)},
    "blosc in shards": {**SHARDS_200, "compressors": BloscCodec(typesize=2)},
    "format 2": {**ROWS_100, "zarr_format": 2, "compressors": numcodecs.Zstd()},
    "blosc of format 2": {**ROWS_100, "zarr_format": 2, "compressors": numcodecs.Blosc()},
}
# Read by Zarr.
OTHER_LAYOUTS: dict[str, dict[str, Any]] = {
    "gzip": {**ROWS_100, "compressors": GzipCodec()},
    "gzip in shards": {**SHARDS_200, "compressors": GzipCodec()},
    "gzip of format 2": {**ROWS_100, "zarr_format": 2, "compressors": numcodecs.GZip()},
    "two codecs": {**ROWS_100, "compressors": [ZstdCodec(), Crc32cCodec()]},
    "parts of rows": {"chunks": (100, 2, 5, 3), "compressors": "auto"},
    "flat parts of rows": {"chunks": (100, 2, 5, 3), "compressors": None},
    "flat parts of rows in shards": {"chunks": (50, 2, 5, 3), "shards": (200, 4, 5, 3), "compressors": None},
    "Fortran": {**ROWS_100, "zarr_format": 2, "order": "F", "compressors": None},
    "big endian": {**ROWS_100, "serializer": BytesCodec(endian="big"), "compressors": None},
    "checksums": {
        "chunks": (200, 4, 5, 3),
        "serializer": ShardingCodec(chunk_shape=(50, 4, 5, 3), codecs=[BytesCodec(), Crc32cCodec()]),
        "compressors": None,
    },
    "index in front": {
        "chunks": (200, 4, 5, 3),
        "serializer": ShardingCodec(chunk_shape=(50, 4, 5, 3), codecs=[BytesCodec()], index_location="start"),
        "compressors": None,
    },
}
LAYOUTS = {**FLAT_LAYOUTS, **COMPRESSED_LAYOUTS, **OTHER_LAYOUTS}


def open_rows(folder: Path, layout: str) -> ZarrRows:
    """`DATA`, written to x.zarr in a folder."""
    return ZarrRows(write_store(folder / "x.zarr", DATA, **LAYOUTS[layout]))


def chunk_file(folder: Path) -> Path:
    """The second chunk or shard of x.zarr, in format 3."""
    return folder / "x.zarr" / "c" / "1" / "0" / "0" / "0"


def stored_bytes(folder: Path) -> int:
    """Bytes of all chunk files of x.zarr."""
    files = (file for file in (folder / "x.zarr").rglob("*") if file.is_file() and file.name[0].isdigit())
    return sum(file.stat().st_size for file in files)


def forbid_zarr(rows: ZarrRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where rows are read by Zarr."""
    monkeypatch.setattr(rows, "_watched", None)


def check_ranges(rows: ZarrRows, expected: np.ndarray = FLAT) -> None:
    """Compare the rows of all ranges."""
    for start, stop in RANGES:
        np.testing.assert_array_equal(rows.read(start, stop), expected[start:stop])
