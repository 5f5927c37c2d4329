"""H04: a chunk that is not what its array says is refused by its name, or read as it was; never as other rows."""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec

from tests.cases.damaged_stores import CHECKSUMS, CHUNK, LAYOUTS, OPTIONS, ROWS, chunk_of, flipped, write
from tests.samples import write_store
from vmfa_dask import fit_local
from vmfa_dask.store.rows import ZarrRows

# Zarr warns of codecs that other tools may not know.
pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")


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


def assert_flips_are_found(path: Path, start: int, step: int) -> None:
    """Flip a bit in each `step`-th byte from `start` on, one at a time; each must be refused with the chunk's name."""
    chunk, content = chunk_of(path), chunk_of(path).read_bytes()
    for at in range(start, len(content), step):
        chunk.write_bytes(flipped(content, at, at % 8))
        with pytest.raises(OSError, match=rf"cannot be read: chunk {chunk.relative_to(path)}"):
            ZarrRows(str(path)).read(0, 600)


@pytest.mark.parametrize("layout", CHECKSUMS)
def test_a_checksum_finds_every_flipped_bit(tmp_path: Path, layout: str) -> None:
    assert_flips_are_found(write(tmp_path / "x.zarr", layout), 0, 101)


@pytest.mark.parametrize(
    "layout", ["zstd with checksum", "gzip", "sharded gzip", "zlib of format 2", "bz2 of format 2", "lzma of format 2"]
)
def test_codecs_with_checksums_find_flipped_bits_behind_their_header(tmp_path: Path, layout: str) -> None:
    assert_flips_are_found(write(tmp_path / "x.zarr", layout), 16, 97)


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
