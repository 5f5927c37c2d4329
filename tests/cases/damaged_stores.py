"""Stores of every layout, whose chunks tests damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr.codecs.numcodecs as extra
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

from tests.samples import draw, make_mixture, write_store

ROWS = np.round(draw(make_mixture(3, 6, 1), 600, dtype="float32"), 1)
CHUNK = 100
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 1, "max_warmup_iter": 1}


def sharded(*codecs: Any, **options: Any) -> dict[str, Any]:
    """Options of `write_store`: shards of 200 rows, chunks of 50."""
    serializer = ShardingCodec(chunk_shape=(50, 6), codecs=[BytesCodec(), *codecs], **options)
    return {"chunks": (200, 6), "serializer": serializer, "compressors": None}


V2: dict[str, Any] = {"chunks": (CHUNK, 6), "zarr_format": 2}
V3: dict[str, Any] = {"chunks": (CHUNK, 6)}
LAYOUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "raw": lambda: {**V3, "compressors": None},
    "raw, swapped": lambda: {**V3, "compressors": None, "serializer": BytesCodec(endian="big")},
    "raw, parts of rows": lambda: {"chunks": (CHUNK, 3), "compressors": None},
    "zstd": lambda: {**V3, "compressors": ZstdCodec()},
    "zstd with checksum": lambda: {**V3, "compressors": ZstdCodec(checksum=True)},
    "zstd, parts of rows": lambda: {"chunks": (CHUNK, 3), "compressors": ZstdCodec()},
    "blosc lz4": lambda: {**V3, "compressors": BloscCodec(cname="lz4", typesize=4)},
    "blosc zstd": lambda: {**V3, "compressors": BloscCodec(cname="zstd", typesize=4)},
    "blosc, parts of rows": lambda: {"chunks": (CHUNK, 3), "compressors": BloscCodec(cname="lz4", typesize=4)},
    "gzip": lambda: {**V3, "compressors": GzipCodec()},
    "crc32c": lambda: {**V3, "compressors": Crc32cCodec()},
    "zstd of crc32c": lambda: {**V3, "compressors": [Crc32cCodec(), ZstdCodec()]},
    "crc32c of zstd": lambda: {**V3, "compressors": [ZstdCodec(), Crc32cCodec()]},
    "numcodecs zlib": lambda: {**V3, "compressors": extra.Zlib()},
    "numcodecs bz2": lambda: {**V3, "compressors": extra.BZ2()},
    "numcodecs lz4": lambda: {**V3, "compressors": extra.LZ4()},
    "sharded raw": sharded,
    "sharded zstd": lambda: sharded(ZstdCodec()),
    "sharded blosc": lambda: sharded(BloscCodec(cname="lz4", typesize=4)),
    "sharded gzip": lambda: sharded(GzipCodec()),
    "sharded crc32c": lambda: sharded(Crc32cCodec()),
    "sharded, index in front": lambda: sharded(index_location="start"),
    "raw of format 2": lambda: {**V2, "compressors": None},
    "raw of format 2, columns": lambda: {**V2, "compressors": None, "order": "F"},
    "zstd of format 2": lambda: {**V2, "compressors": numcodecs.Zstd()},
    "blosc of format 2": lambda: {**V2, "compressors": numcodecs.Blosc(cname="lz4")},
    "gzip of format 2": lambda: {**V2, "compressors": numcodecs.GZip()},
    "zlib of format 2": lambda: {**V2, "compressors": numcodecs.Zlib()},
    "bz2 of format 2": lambda: {**V2, "compressors": numcodecs.BZ2()},
    "lzma of format 2": lambda: {**V2, "compressors": numcodecs.LZMA()},
    "lz4 of format 2": lambda: {**V2, "compressors": numcodecs.LZ4()},
    "filtered blosc of format 2": lambda: {
        **V2,
        "compressors": numcodecs.Blosc(cname="lz4"),
        "filters": [numcodecs.Shuffle(4)],
    },
}
CHECKSUMS = ("crc32c", "zstd of crc32c", "crc32c of zstd", "sharded crc32c")


def write(path: Path, layout: str, rows: np.ndarray = ROWS, factor: int = 1) -> Path:
    """Write rows as a store of a layout, in chunks of `factor` times its number of rows."""
    options = LAYOUTS[layout]()
    options["chunks"] = (options["chunks"][0] * factor, *options["chunks"][1:])
    write_store(path, rows, **options)
    return path


def chunk_of(path: Path) -> Path:
    """The file of the second chunk."""
    return path / ("1.0" if (path / ".zarray").exists() else "c/1/0")


def flipped(content: bytes, at: int, bit: int) -> bytes:
    """A copy with one bit of the byte `at` changed."""
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    return bytes(changed)
