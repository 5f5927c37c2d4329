"""H09, data: damaged metadata and headers are one line with the file, what is wrong and what to do."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_local
from vmfa_dask.service.sources import opened_rows

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 1, "max_warmup_iter": 1}

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b"   \n",
    "binary": bytes(range(128, 256)),
    "cut": b'{"zarr_format": 3, "node_ty',
    "UTF-16 half": b"\xff\xfe{",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "list": b"[1, 2]",
    "text": b'"zarr"',
    "null": b"null",
    "number": b"12",
    "long number": b'{"zarr_format": ' + b"9" * 5000 + b"}",
    "zeros": bytes(400),
    "HTML": b"<!DOCTYPE html>\n<html>\n",
    "empty object": b"{}",
}
# Metadata by file and format; {} is no error where a file only holds attributes.
FILES: dict[str, Any] = {"zarr.json": 3, ".zarray": 2, ".zattrs": 2, ".zgroup": 2, ".zmetadata": 2, "x/zarr.json": 3}


def stored(path: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """A store with a file of this name, and how its array is named."""
    zarr_format = FILES[name]
    if "/" not in name and name not in (".zgroup", ".zmetadata"):
        write_store(path, ROWS, 100, zarr_format=zarr_format)
        return path, {}
    zarr.open_group(str(path), mode="w", zarr_format=zarr_format).create_array("x", data=ROWS, chunks=(100, 6))
    if name == ".zmetadata":
        zarr.consolidate_metadata(str(path), zarr_format=2)
    return path, {"array": "x"}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", FILES)
def test_damaged_metadata_are_named(tmp_path: Path, name: str, text: str) -> None:
    path, named = stored(tmp_path / "g.zarr", name)
    (path / name).write_bytes(TEXTS[text])
    if text in ("empty object", "long number") and name in (".zattrs", ".zgroup"):
        return
    with pytest.raises(ValueError, match=r"g.zarr/?.*(damaged|no Zarr array)") as raised:
        fit_local(str(path), **named, **OPTIONS)
    assert f"g.zarr/{name} is damaged: " in str(raised.value)
    assert str(raised.value).endswith("; restore it from a copy, or write the array again")
    assert len(str(raised.value).splitlines()) == 1


def outcome(source: Path, **named: Any) -> str | None:
    """The message of a refusal; other errors are failures of the test."""
    found: Exception | None = None
    try:
        with opened_rows(str(source), **named) as rows:
            rows.read(0, rows.n_rows)
    except (ValueError, OSError, MemoryError) as error:
        found = error
    assert not isinstance(found, json.JSONDecodeError | UnicodeError), repr(found)
    return None if found is None else str(found)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(3))
def test_flips_in_metadata_are_named_or_harmless(tmp_path: Path, name: str, seed: int) -> None:
    path, named = stored(tmp_path / "g.zarr", name)
    whole, rng = (path / name).read_bytes(), random.Random(seed)
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 1, 4))):
            content[rng.randrange(len(content))] = rng.choice((rng.randrange(256), *b'0-9{}[]",:e'))
        (path / name).write_bytes(content[: rng.choice((len(content), len(content), rng.randrange(len(content))))])
        said = outcome(path, **named)
        assert said is None or (str(path) in said and len(said.splitlines()) == 1), said


def changed(document: Any, rng: random.Random) -> Any:
    """The same JSON with one of its values replaced or left out."""
    values = (None, -1, 0, 1.5, 10**20, True, "", "a", [], {}, [0], ["a", None], {"name": "b"}, float("nan"))
    if isinstance(document, dict) and document and rng.random() < 0.9:
        key = rng.choice(list(document))
        if rng.random() < 0.2:
            return {name: value for name, value in document.items() if name != key}
        return {**document, key: changed(document[key], rng)}
    if isinstance(document, list) and document and rng.random() < 0.7:
        at = rng.randrange(len(document))
        return [*document[:at], changed(document[at], rng), *document[at + 1 :]]
    return rng.choice(values)


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zmetadata", "x/zarr.json", "shards"])
@pytest.mark.parametrize("seed", range(3))
def test_other_values_in_metadata_are_named_or_harmless(tmp_path: Path, name: str, seed: int) -> None:
    if name == "shards":
        path, named = tmp_path / "g.zarr", {}
        write_store(path, ROWS, 50, shards=(200, 6))
        name = "zarr.json"
    else:
        path, named = stored(tmp_path / "g.zarr", name)
    document, rng = json.loads((path / name).read_text()), random.Random(seed)
    for _ in range(40):
        (path / name).write_text(json.dumps(changed(document, rng)))
        said = outcome(path, **named)
        assert said is None or (str(path) in said and len(said.splitlines()) == 1), said


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def with_header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(2400)


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=ROWS)
    return file.getvalue()


HEADERS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "magic alone": lambda: b"\x93NUMPY",
    "no length": lambda: b"\x93NUMPY\x01\x00",
    "version 9": lambda: b"\x93NUMPY\x09\x00" + npy(ROWS)[8:],
    "cut header": lambda: npy(ROWS)[:40],
    "cut rows": lambda: npy(ROWS)[:-1],
    "bytes behind the rows": lambda: npy(ROWS) + b"\0",
    "bytes before the rows": lambda: npy(ROWS)[:128] + b"\0\0\0" + npy(ROWS)[128:],
    "two arrays": lambda: npy(ROWS) + npy(ROWS),
    "long header": lambda: b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + npy(ROWS)[10:],
    "no dictionary": lambda: with_header(b"[1, 2]\n"),
    "no Python": lambda: with_header(b"{'descr': '<f4',\n"),
    "nested": lambda: with_header(b"(" * 9000 + b"\n"),
    "binary": lambda: with_header(bytes(range(128, 256))),
    "null": lambda: with_header(b"\0" * 64),
    "huge": lambda: with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000, 6)}\n"),
    "beyond int64": lambda: with_header(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1" + b"0" * 30 + b", 6)}\n"
    ),
    "negative": lambda: with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-5, 6)}\n"),
    "dtype": lambda: with_header(b"{'descr': 'zz', 'fortran_order': False, 'shape': (5, 6)}\n"),
    "dtype of a list": lambda: with_header(b"{'descr': [1], 'fortran_order': False, 'shape': (5, 6)}\n"),
    "wide dtype": lambda: with_header(b"{'descr': '|V999999999', 'fortran_order': False, 'shape': (5, 6)}\n"),
    "objects": lambda: npy(np.array([[1, "a"], [None, 2]], object), allow_pickle=True),
    "no rows": lambda: npy(ROWS[:0]),
    "no features": lambda: npy(ROWS[:, :0]),
    "a number": lambda: npy(np.float32(3)),
    "an archive": npz,
    "a picture": lambda: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "text": lambda: b"1,2,3\n4,5,6\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_damaged_files_of_numpy_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(HEADERS[name]())
    said = outcome(path)
    assert said is not None
    assert said.startswith(f"{path}: ")
    assert len(said.splitlines()) == 1
    if name == "an archive":
        assert "an archive of arrays of NumPy; pass one of them: numpy.load(path)[name]" in said


def test_flips_in_headers_of_numpy_are_named_or_harmless(tmp_path: Path) -> None:
    path, whole, rng = tmp_path / "x.npy", npy(ROWS), random.Random(0)
    for _ in range(150):
        content = bytearray(whole)
        content[rng.randrange(128)] = rng.choice((rng.randrange(256), *b"0-9{}()',:"))
        path.write_bytes(content)
        said = outcome(path)
        assert said is None or (str(path) in said and len(said.splitlines()) == 1), said


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + b"\xff" * 18])
def test_damaged_archives_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=r"x.zip: ") as raised:
        fit_local(str(path), **OPTIONS)
    assert len(str(raised.value).splitlines()) == 1
