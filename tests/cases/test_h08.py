"""H08: what would wait for ever, or for very long, is refused at once."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_local
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.store.contents import stamps_of
from vmfa_dask.store.rows import ZarrRows

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 1, "max_warmup_iter": 1}


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (lambda path: os.mkfifo(path), "a named pipe"),
    "link to a pipe": (lambda path: (os.mkfifo(path.with_name("pipe")), path.symlink_to("pipe"))[0], "a named pipe"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
    "link to itself": (lambda path: path.symlink_to(path.name), "a link to nothing"),
    "socket": (make_socket, "a socket"),
    "folder": (lambda path: path.mkdir(), "a folder"),
}


NAMES = ["zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"]


def put(path: Path, kind: str) -> str:
    path.unlink(missing_ok=True)
    make, called = KINDS[kind]
    make(path)
    return called


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*NAMES, "x/zarr.json", "x/.zarray"])
@pytest.mark.timeout(60)
def test_metadata_that_are_no_file(tmp_path: Path, kind: str, name: str) -> None:
    zarr_format: Any = 3 if name.endswith("zarr.json") else 2
    path = tmp_path / "g.zarr"
    if "/" in name or name in (".zgroup", ".zmetadata"):
        group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
        group.create_array("x", data=ROWS, chunks=(100, 6))
    else:
        write_store(path, ROWS, 100, zarr_format=zarr_format)
    called = put(path / name, kind)
    with pytest.raises(ValueError, match=rf"g.zarr/{name} is {called}, expected a regular file"):
        fit_local(str(path), array="x" if "/" in name else None, **OPTIONS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "layout",
    [{"compressors": None}, {}, {"chunks": (100, 3)}, {"chunks": (50, 6), "shards": (100, 6)}, {"zarr_format": 2}],
    ids=["raw", "zstd", "parts of rows", "shards", "format 2"],
)
@pytest.mark.timeout(60)
def test_a_chunk_that_is_no_file(tmp_path: Path, kind: str, layout: dict[str, Any]) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, **{"chunks": (100, 6), **layout}))
    chunk = path / ("1.0" if "zarr_format" in layout else "c/1/0")
    called = put(chunk, kind)
    for missing in ("refuse", "fill"):
        message = rf"rows 0:600 cannot be read: chunk {chunk.relative_to(path)} is {called}, expected a regular file"
        with pytest.raises(OSError, match=message):
            ZarrRows(str(path), missing=missing).read(0, 600)
    with pytest.raises((OSError, ValueError), match=r"x.zarr: "):
        fit_local(str(path), **OPTIONS)


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "link to nothing"])
@pytest.mark.parametrize("name", ["x.zarr", "x.npy", "x.zip"])
@pytest.mark.timeout(60)
def test_data_that_are_no_file(tmp_path: Path, kind: str, name: str) -> None:
    called = put(tmp_path / name, kind)
    with pytest.raises(ValueError, match=rf"{name} is {called}, expected a folder or a file"):
        fit_local(str(tmp_path / name), **OPTIONS)


def test_folders_that_contain_themselves_are_listed_once(tmp_path: Path) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100))
    for name in ("a", "b"):
        (path / "c" / name).symlink_to(path)
    found = stamps_of(zarr.open_array(str(path), mode="r"))
    assert found is not None
    assert set(found) == {f"c/{k}/0" for k in range(6)}


def test_chunks_on_another_disk_are_found(tmp_path: Path) -> None:
    path = Path(write_store(tmp_path / "x.zarr", ROWS, 100))
    shutil.move(path / "c", tmp_path / "elsewhere")
    (path / "c").symlink_to(tmp_path / "elsewhere")
    rows = ZarrRows(str(path))
    rows.check_complete()
    np.testing.assert_array_equal(rows.read(0, 600), ROWS)


@pytest.mark.parametrize("n_groups", [10_001, 10**6, 10**9, 10**18])
def test_too_many_groups(n_groups: int) -> None:
    message = rf"n_groups={n_groups}: expected an integer >= 1 and <= 10000"
    with pytest.raises(ValueError, match=message):
        fit_local(ROWS, **{**OPTIONS, "n_groups": n_groups})
    assert len(make_plan(ArrayRows(ROWS), Settings(3), 10_000).groups) == 600
