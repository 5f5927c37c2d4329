"""H07, H01: stores that ask for more memory than their chunks have, or for code to run, are refused before either."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import pickle
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import pytest
import zarr
import zarr.codecs.numcodecs as extra
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_local
from vmfa_dask.store.opening import refuse_objects
from vmfa_dask.store.rows import ZarrRows

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 1, "max_warmup_iter": 1}
BOMB = 2**26
PEAK = 3 * 2**23


def stream_of(pieces: int) -> bytes:
    """Frames of Zstandard that do not say what they hold: bytes that are repeated, 128 KiB in 4 bytes."""
    block = ((2**17) << 3 | 2).to_bytes(3, "little") + b"\0"
    last = ((2**17) << 3 | 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (pieces - 1) + last


BOMBS: dict[str, tuple[dict[str, Any], Callable[[], bytes]]] = {
    "zstd": ({"compressors": ZstdCodec()}, lambda: numcodecs.Zstd().encode(bytes(BOMB))),
    "zstd without size": ({"compressors": ZstdCodec()}, lambda: stream_of(BOMB // 2**17)),
    "zstd of two frames": (
        {"compressors": ZstdCodec()},
        lambda: numcodecs.Zstd().encode(bytes(2400)) + numcodecs.Zstd().encode(bytes(BOMB)),
    ),
    "zstd, parts of rows": (
        {"compressors": ZstdCodec(), "chunks": (100, 3)},
        lambda: numcodecs.Zstd().encode(bytes(BOMB)),
    ),
    "blosc": ({"compressors": BloscCodec()}, lambda: numcodecs.Blosc().encode(bytes(BOMB))),
    "gzip": ({"compressors": GzipCodec()}, lambda: gzip.compress(bytes(BOMB))),
    "gzip of two members": (
        {"compressors": GzipCodec()},
        lambda: gzip.compress(bytes(2400)) + gzip.compress(bytes(BOMB)),
    ),
    "one in another": (
        {"compressors": [GzipCodec(), ZstdCodec()]},
        lambda: numcodecs.Zstd().encode(gzip.compress(bytes(BOMB))),
    ),
    "numcodecs zlib": ({"compressors": extra.Zlib}, lambda: zlib.compress(bytes(BOMB))),
    "numcodecs bz2": ({"compressors": extra.BZ2}, lambda: bz2.compress(bytes(BOMB), 1)),
    "numcodecs lz4": ({"compressors": extra.LZ4}, lambda: numcodecs.LZ4().encode(bytes(BOMB))),
    "zlib": ({"compressors": numcodecs.Zlib(), "zarr_format": 2}, lambda: zlib.compress(bytes(BOMB))),
    "bz2": ({"compressors": numcodecs.BZ2(), "zarr_format": 2}, lambda: bz2.compress(bytes(BOMB), 1)),
    "lzma": ({"compressors": numcodecs.LZMA(), "zarr_format": 2}, lambda: lzma.compress(bytes(BOMB), preset=0)),
    "lz4": ({"compressors": numcodecs.LZ4(), "zarr_format": 2}, lambda: numcodecs.LZ4().encode(bytes(BOMB))),
    "blosc of format 2": (
        {"compressors": numcodecs.Blosc(), "zarr_format": 2},
        lambda: numcodecs.Blosc().encode(bytes(BOMB)),
    ),
    "filtered": (
        {"compressors": numcodecs.Zlib(), "filters": [numcodecs.Shuffle(4)], "zarr_format": 2},
        lambda: zlib.compress(bytes(BOMB)),
    ),
    "a large file": ({"compressors": Crc32cCodec()}, lambda: bytes(BOMB)),
    "a large raw file": ({"compressors": None, "chunks": (100, 3)}, lambda: bytes(BOMB)),
    "a large file of zstd": ({"compressors": ZstdCodec()}, lambda: bytes(BOMB)),
}


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("missing", ["refuse", "fill"])
def test_a_bomb_takes_no_more_than_its_chunk(tmp_path: Path, kind: str, missing: str) -> None:
    options, bomb = BOMBS[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr version 3")
        made = {name: value() if isinstance(value, type) else value for name, value in options.items()}
        path = Path(write_store(tmp_path / "x.zarr", ROWS, **{"chunks": (100, 6), **made}))
        chunk = path / ("1.0" if "zarr_format" in options else "c/1/0")
        chunk.write_bytes(bomb())
        rows = ZarrRows(str(path), missing=missing)
        rows.read(0, 100)
        tracemalloc.start()
        try:
            with pytest.raises(OSError, match=rf"rows 100:200 cannot be read: chunk {chunk.relative_to(path)}"):
                rows.read(100, 200)  # alone: tables of LZMA take 8 MiB for each chunk that is decoded at once
            assert tracemalloc.get_traced_memory()[1] < PEAK
        finally:
            tracemalloc.stop()


def test_a_bomb_in_a_zip_archive_is_not_unpacked(tmp_path: Path) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path.rglob("*")):
            if file.is_file():
                content = bytes(BOMB) if file == path / "c/1/0" else file.read_bytes()
                archive.writestr(str(file.relative_to(path)), content)
    rows = ZarrRows(str(tmp_path / "x.zip"))
    with pytest.raises(OSError, match=rf"chunk c/1/0 has {BOMB} bytes, expected at most"):
        rows.read(0, 600)


def edited(path: Path, zarr_format: int, **changes: Any) -> None:
    """Change metadata of an array by name."""
    file = path / (".zarray" if zarr_format == 2 else "zarr.json")
    document = json.loads(file.read_text())
    for name, value in changes.items():
        if name == "chunks" and zarr_format == 3:
            document["chunk_grid"]["configuration"]["chunk_shape"] = value
        else:
            document["data_type" if name == "dtype" and zarr_format == 3 else name] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("compressors", [None, "auto"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [10**18, 6]}, r"takes 2.4e\+19 bytes, expected less than 2\*\*60"),
        ({"shape": [2**40, 2**40]}, r"expected less than 2\*\*60"),
        ({"shape": [600, 2**62]}, r"expected less than 2\*\*60"),
        ({"shape": [600, 10**30]}, r"shape is .* expected whole numbers from 0 on and below 2\*\*63"),
        ({"shape": [10**12, 6], "chunks": [1, 6]}, r"9\d* chunks are not stored"),
        ({"shape": [10**11, 6]}, r"\d{9} chunks are not stored, the first one is \(6, 0\)"),
        ({"chunks": [10**12, 6]}, r"chunk \(10+, 6\) takes .* GiB|chunk .*holds|beyond"),
        ({"chunks": [0, 6]}, r"is \[0, 6\], expected whole numbers from 1 on"),
        ({"chunks": [-5, 6]}, r"is \[-5, 6\], expected whole numbers from 1 on"),
        ({"shape": [-600, 6]}, r"is \[-600, 6\], expected whole numbers from 0 on"),
        ({"shape": [0, 6]}, r"shape \(0, 6\) holds no values"),
        ({"shape": [600.5, 6]}, r"is \[600.5, 6\], expected whole numbers"),
        ({"shape": [True, 6]}, r"is \[True, 6\], expected whole numbers"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_words(
    tmp_path: Path, zarr_format: Any, compressors: Any, changes: dict[str, Any], message: str
) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100, zarr_format=zarr_format, compressors=compressors))
    edited(path, zarr_format, **changes)
    with pytest.raises((ValueError, MemoryError, OSError), match=message) as raised:
        fit_local(str(path), **OPTIONS)
    assert str(path) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


DTYPES = ["|V1000000000", "|S999999999", "<U99999999", "<f16", "<c16", "|O", "<M8[ns]", [["a", "<f4"]]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_of_any_size_are_refused(tmp_path: Path, dtype: Any) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100, zarr_format=2))
    edited(path, 2, dtype=dtype, fill_value=None)
    with pytest.raises(ValueError, match=r"x.zarr: .*(dtype|damaged)"):
        fit_local(str(path), **OPTIONS)


def test_a_shard_of_too_many_chunks(tmp_path: Path) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 50, shards=(200, 6)))
    document = json.loads((path / "zarr.json").read_text())
    document["chunk_grid"]["configuration"]["chunk_shape"] = [50 * 10**9, 6]
    (path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"zarr.json is damaged: a shard has 1000000000 chunks, expected at most"):
        ZarrRows(str(path))


def test_no_memory_stays_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, options in (("raw", {"compressors": None}), ("zstd", {}), ("parts", {"chunks": (100, 3)})):
        rows = ZarrRows(write_store(tmp_path / name, ROWS, **{"chunks": (100, 6), **options}))

        def fail(*_: Any) -> Any:
            raise MemoryError("Unable to allocate 9 TiB")

        if name == "parts":
            monkeypatch.setattr(rows._watched.store._store, "get", fail)  # type: ignore[attr-defined]
        else:
            monkeypatch.setattr(rows._direct, "read", fail)
        with pytest.raises(MemoryError, match=rf"{name}: no memory for rows 0:600: Unable to allocate 9 TiB"):
            rows.read(0, 600)


class Payload:
    """Leaves a file where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def hostile(path: Path, mark: Path, where: str, dtype: str) -> Path:
    write_store(path, ROWS, 100, zarr_format=2, compressors=None)
    codec = {"id": "pickle", "protocol": 5}
    fill = base64.b64encode(pickle.dumps(Payload(mark))).decode() if dtype == "|O" else None
    edited(path, 2, dtype=dtype, fill_value=fill, **{where: codec if where == "compressor" else [codec]})
    for chunk in path.glob("*.0"):
        chunk.write_bytes(pickle.dumps(Payload(mark)))
    return path


@pytest.mark.parametrize("dtype", ["|O", "<f4"])
@pytest.mark.parametrize("where", ["compressor", "filters"])
@pytest.mark.parametrize("form", ["path", "group", "zip"])
def test_no_code_of_a_store_runs(tmp_path: Path, dtype: str, where: str, form: str) -> None:
    mark = tmp_path / "ran"
    path = hostile(tmp_path / "g.zarr" / "x", mark, where, dtype)
    data = str(path)
    if form == "group":
        (tmp_path / "g.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
        data = str(tmp_path / "g.zarr")
    elif form == "zip":
        data = str(tmp_path / "x.zip")
        with zipfile.ZipFile(data, "w") as archive:
            for file in path.iterdir():
                archive.write(file, file.name)
    model = fit_local(ROWS, **OPTIONS).model
    for use in (lambda: fit_local(data, **OPTIONS), lambda: model.score(data)):
        with pytest.raises(ValueError, match=r"holds objects of Python|damaged, or of a kind that Zarr does not know"):
            use()
    assert not mark.exists()


@pytest.mark.parametrize("name", ["pickle", "numcodecs.pickle", "numcodecs.json2", "vlen-utf8", "no_such_codec"])
def test_codecs_of_objects_in_format_3(tmp_path: Path, name: str) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100, compressors=None))
    codec = {"name": name, "configuration": {}}
    for codecs in ([codec], [{"name": "bytes", "configuration": {"endian": "little"}}, codec]):
        edited(path, 3, codecs=codecs)
        for chunk in path.glob("c/*/0"):
            chunk.write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
        with pytest.raises(ValueError, match=r"x.zarr: .*(objects of Python|of a kind that Zarr does not know)"):
            fit_local(str(path), **OPTIONS)
    assert not (tmp_path / "ran").exists()


def test_an_open_array_of_objects_is_not_decoded() -> None:
    array = zarr.create_array(zarr.storage.MemoryStore(), shape=(6, 2), dtype=str, chunks=(3, 2))
    with pytest.raises(ValueError, match=r"x: the (codec|dtype) .* holds objects of Python, expected numbers"):
        refuse_objects("x", array)
