"""H04: a chunk that is not what its array says is refused by its name, or read as it was; never as other rows."""

from __future__ import annotations

import logging
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as extra
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_local
from vmfa_dask.store.rows import ZarrRows

ROWS = np.round(draw(make_mixture(3, 6, 1), 600, dtype="float32"), 1)
CHUNK = 100
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 1, "max_warmup_iter": 1}


def sharded(*codecs: Any, **options: Any) -> dict[str, Any]:
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


@pytest.fixture(autouse=True)
def _extra_codecs() -> Iterator[None]:
    """Zarr warns of codecs that other tools may not know."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr version 3")
        yield


def write(path: Path, layout: str, rows: np.ndarray = ROWS, factor: int = 1) -> Path:
    options = LAYOUTS[layout]()
    options["chunks"] = (options["chunks"][0] * factor, *options["chunks"][1:])
    write_store(path, rows, **options)
    return path


def chunk_of(path: Path) -> Path:
    return path / ("1.0" if (path / ".zarray").exists() else "c/1/0")


def flipped(content: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    return bytes(changed)


def read_or_refused(rows: ZarrRows) -> tuple[Any, str | None]:
    try:
        return rows.read(0, 600), None
    except OSError as error:
        return None, str(error)


FAULTS: dict[str, Callable[[bytes, bytes], list[bytes]]] = {
    "empty": lambda content, other: [b""],
    "cut": lambda content, other: [content[:n] for n in (1, 10, 15, 17, len(content) // 2, len(content) - 1)],
    "longer": lambda content, other: [content + b"\0", content + content, content + bytes(1000)],
    "another size": lambda content, other: [other],
    "zeros": lambda content, other: [bytes(len(content))],
    "flipped header": lambda content, other: [flipped(content, at, at % 8) for at in range(16)],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_chunk_is_refused_or_read_as_it_was(tmp_path: Path, layout: str, fault: str) -> None:
    path = write(tmp_path / "x.zarr", layout)
    chunk = chunk_of(path)
    other = chunk_of(write(tmp_path / "other.zarr", layout, np.repeat(ROWS, 2, 0), 2)).read_bytes()
    key = chunk.relative_to(path)
    plain = layout not in CHECKSUMS and (layout.startswith(("raw", "sharded", "filtered", "blosc")) or "lz4" in layout)
    for content in FAULTS[fault](chunk.read_bytes(), other):
        whole = chunk.read_bytes()
        chunk.write_bytes(content)
        rows = ZarrRows(str(path))
        rows.read(0, CHUNK)  # what is in the buffers now is another chunk
        found, refusal = read_or_refused(rows)
        if refusal is not None:
            assert f"x.zarr: rows 0:600 cannot be read: chunk {key}" in refusal
            assert "\n" not in refusal
        elif not (plain and fault in ("zeros", "flipped header")):  # what has no checksum may hold other numbers
            np.testing.assert_array_equal(found, ROWS, err_msg=f"{layout}: {fault} of {len(content)} bytes")
        chunk.write_bytes(whole)


@pytest.mark.parametrize("layout", CHECKSUMS)
def test_a_checksum_finds_every_flipped_bit(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "x.zarr", layout)
    chunk, content = chunk_of(path), chunk_of(path).read_bytes()
    for at in range(0, len(content), 101):
        chunk.write_bytes(flipped(content, at, at % 8))
        with pytest.raises(OSError, match=r"cannot be read: chunk c/1/0"):
            ZarrRows(str(path)).read(0, 600)


@pytest.mark.parametrize(
    "layout", ["zstd with checksum", "gzip", "sharded gzip", "zlib of format 2", "bz2 of format 2", "lzma of format 2"]
)
def test_codecs_with_checksums_find_flipped_bits_behind_their_header(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "x.zarr", layout)
    chunk, content = chunk_of(path), chunk_of(path).read_bytes()
    for at in range(16, len(content), 97):
        chunk.write_bytes(flipped(content, at, at % 8))
        with pytest.raises(OSError, match=rf"cannot be read: chunk {chunk.relative_to(path)}"):
            ZarrRows(str(path)).read(0, 600)


@pytest.mark.parametrize("cname", ["lz4", "zstd", "zlib", "blosclz", "lz4hc"])
def test_cuts_of_blosc_never_decode_what_lay_there_before(tmp_path: Path, cname: Any) -> None:
    path = tmp_path / "x.zarr"
    write_store(path, ROWS, CHUNK, compressors=BloscCodec(cname=cname, typesize=4))
    content = chunk_of(path).read_bytes()
    for n in range(0, len(content), max(1, len(content) // 40)):
        rows = ZarrRows(str(path))
        chunk_of(path).write_bytes(content)
        rows.read(0, 600)
        chunk_of(path).write_bytes(content[:n])
        with pytest.raises(OSError, match=r"chunk c/1/0"):
            rows.read(0, 600)


@pytest.mark.parametrize("layout", ["zstd", "blosc lz4", "sharded zstd", "sharded blosc", "blosc of format 2"])
def test_what_was_refused_is_not_given_to_zarr(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.zarr", layout)
    chunk_of(path).write_bytes(chunk_of(path).read_bytes()[:-1])
    rows = ZarrRows(str(path))
    monkeypatch.setattr(rows, "_watched", None)
    with pytest.raises(OSError, match=r"x.zarr: rows 0:600 cannot be read: chunk "):
        rows.read(0, 600)


@pytest.mark.parametrize("layout", ["zstd", "raw"])
def test_what_zarr_reads_instead_is_said_once(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = ZarrRows(str(write(tmp_path / "x.zarr", layout)))

    def fail(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(rows._direct, "read", fail)
    with caplog.at_level(logging.WARNING, "vmfa_dask"):
        for _ in range(3):
            np.testing.assert_array_equal(rows.read(0, 600), ROWS)
    assert [record.message.count("Input/output error") for record in caplog.records] == [1]


@pytest.mark.parametrize("n_bytes", [1000, 2399, 2401, 4800])
@pytest.mark.parametrize("last", [False, True])
def test_a_flat_chunk_has_exactly_its_bytes(tmp_path: Path, n_bytes: int, last: bool) -> None:
    path = write(tmp_path / "x.zarr", "raw", ROWS[:550])
    chunk = path / "c/5/0" if last else chunk_of(path)
    chunk.write_bytes(chunk.read_bytes().ljust(n_bytes, b"\0")[:n_bytes])
    message = rf"chunk {chunk.relative_to(path)} (is cut short: it )?holds {n_bytes} bytes, expected 2400"
    with pytest.raises(OSError, match=message):
        ZarrRows(str(path)).read(0, 550)


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


def shortened(path: Path, n_rows: int) -> None:
    for name in ("zarr.json", ".zarray"):
        if (path / name).exists():
            (path / name).write_text((path / name).read_text().replace("600", str(n_rows), 1))


@pytest.mark.parametrize("layout", ["raw", "zstd", "gzip", "sharded raw", "raw of format 2"])
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_chunks_beyond_the_shape_are_told(
    tmp_path: Path, layout: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "x.zarr", layout)
    shortened(path, 200)
    assert zarr.open_array(str(path), mode="r").shape == (200, 6)
    source = path
    if form == "zip":
        source = tmp_path / "x.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for file in sorted(path.rglob("*")):
                archive.write(file, file.relative_to(path))
        shutil.rmtree(path)
    n = 2 if "sharded" in layout else 4
    found = rf"the store holds {n} chunks beyond its shape \(200, 6\), the first one is (c/)?\d"
    with pytest.raises(ValueError, match=found):
        fit_local(str(source), **OPTIONS)
    rows = ZarrRows(str(source), missing="fill")
    with caplog.at_level(logging.WARNING, "vmfa_dask"):
        rows.check_complete()
    assert f"{n} chunks beyond its shape" in caplog.text
    np.testing.assert_array_equal(rows.read(0, 200), ROWS[:200])


def test_frames_that_follow_one_another_are_one_chunk(tmp_path: Path) -> None:
    """As compressors write that work on several threads."""
    path, raw = write(tmp_path / "x.zarr", "zstd"), ROWS[100:200].tobytes()
    compress = numcodecs.Zstd().encode
    chunk_of(path).write_bytes(compress(raw[:1000]) + compress(raw[1000:]))
    np.testing.assert_array_equal(ZarrRows(str(path)).read(0, 600), ROWS)
    for parts in ((raw[:1000], raw[1000:-4]), (raw[:1000], raw[1000:], b"more"), (raw[:-4],)):
        chunk_of(path).write_bytes(b"".join(map(compress, parts)))
        with pytest.raises(OSError, match=r"chunk c/1/0: it "):
            ZarrRows(str(path)).read(0, 600)
