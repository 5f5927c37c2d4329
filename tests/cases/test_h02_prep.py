"""H02: a store in work knows its sources by their content, and never mixes rows of files that changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import prepare_arrays
from tests.data_prep.image_files import encoded, noise, rows, write_folder, write_tar, write_zip
from tests.data_prep.table_files import FORMATS, stored, write_rows
from vmfa_dask.data_prep import arrays_to_zarr as arrays_module
from vmfa_dask.data_prep import image_parts, image_sources, shards
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_store import write_images
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.data_prep.recipes import cifar10

ROWS = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
OTHER = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of twenty rows."""
    monkeypatch.setattr(shards, "CHUNK_BYTES", 10 * 4 * 4)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 2)


def interrupted(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], after: int = 3) -> None:
    """Call a function that is stopped after some shards."""
    written, real = [], shards.write_shard

    def write(shard: shards.Shard) -> None:
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(shard)
        real(shard)

    with monkeypatch.context() as patched:
        patched.setattr(shards, "write_shard", write)
        with pytest.raises(KeyboardInterrupt):
            call()


def replaced(path: Path, write: Callable[[], Any]) -> None:
    """Write a file anew without a trace in its time."""
    status = path.stat()
    write()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("options", [{}, {"test_share": 0.3}, {"compress": True}, {"dtype": "float64"}])
def test_another_file_of_the_same_name_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, options: dict[str, Any]
) -> None:
    source, target = write_rows(tmp_path, "a", file_format, ROWS), tmp_path / "x.zarr"
    interrupted(monkeypatch, lambda: arrays_to_zarr([source], target, workers=1, **options))
    replaced(source, lambda: write_rows(tmp_path, "a", file_format, OTHER))
    message = r"x.zarr.partial was begun from other sources or options; remove it .*a\.\w+ \(content"
    with pytest.raises(ValueError, match=message):
        arrays_to_zarr([source], target, **options)
    assert not target.exists()
    replaced(source, lambda: write_rows(tmp_path, "a", file_format, ROWS))
    assert arrays_to_zarr([source], target, **options) == 200
    if "test_share" not in options:
        np.testing.assert_array_equal(stored(target), ROWS)


@pytest.mark.parametrize("change", ["one value", "time", "size", "folder"])
def test_what_changed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    source, target = write_rows(tmp_path / "in", "a", "npy", ROWS), tmp_path / "x.zarr"
    interrupted(monkeypatch, lambda: arrays_to_zarr([source], target, workers=1))
    if change == "one value":
        again = ROWS.copy()
        again[77, 2] += 1
        replaced(source, lambda: np.save(source, again))
    elif change == "time":
        os.utime(source, ns=(1, 1))
    elif change == "size":
        np.save(source, ROWS[:100])
    else:
        source = write_rows(tmp_path / "other", "a", "npy", ROWS)
    expected = {"one value": r"\(content\)", "time": r"\(time\)", "size": r"\(content, size", "folder": "sources were"}
    with pytest.raises(ValueError, match=expected[change]):
        arrays_to_zarr([source], target)


def test_a_file_that_was_mended_before_a_row_was_written(tmp_path: Path) -> None:
    spoiled, mended = ROWS[:20].copy(), ROWS[:20]
    spoiled[3] = np.nan
    source, target = write_rows(tmp_path, "a", "npy", spoiled), tmp_path / "x.zarr"
    with pytest.raises(ValueError, match="row 3 holds nan"):
        arrays_to_zarr([source], target, workers=1)
    np.save(source, mended)
    arrays_to_zarr([source], target)
    np.testing.assert_array_equal(stored(target), mended)
    assert sorted(path.name for path in target.iterdir()) == ["c", "zarr.json"]


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, real = write_rows(tmp_path, "a", "npy", ROWS), tmp_path / "x.zarr", arrays_module.write_store

    def write(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        np.save(source, OTHER)

    monkeypatch.setattr(arrays_module, "write_store", write)
    with pytest.raises(ValueError, match=r"sources changed while they were read, .*a\.npy \(content"):
        arrays_to_zarr([source], target)
    assert not target.exists()


def test_a_folder_in_the_place_of_the_store_in_work_is_kept(tmp_path: Path) -> None:
    source, target = write_rows(tmp_path, "a", "npy", ROWS), tmp_path / "x.zarr"
    write_folder(tmp_path / "x.zarr.partial", {"thesis.tex": b"text"})
    with pytest.raises(ValueError, match="is in the way and was not made by this command"):
        arrays_to_zarr([source], target)
    assert (tmp_path / "x.zarr.partial/thesis.tex").read_bytes() == b"text"


def image_source(folder: Path, kind: str, seed: int) -> tuple[Path, Path]:
    """Write a source of images; return it and the file in it that another seed changes alone."""
    folder.mkdir(exist_ok=True)
    files = {f"{k}.bmp": encoded(noise(k), "BMP") for k in range(6)} | {"3.bmp": encoded(noise(3 + seed), "BMP")}
    if kind == "folder":
        return write_folder(folder / "images", files), folder / "images/3.bmp"
    if kind == "list":
        write_folder(folder / "images", files)
        (folder / "list.txt").write_text("".join(f"images/{name}\n" for name in files))
        return folder / "list.txt", folder / "images/3.bmp"
    write = {"zip": write_zip, "tar": write_tar, "tar.gz": lambda *a: write_tar(*a, "w:gz")}[kind]
    path = write(folder / f"a.{kind}", files)
    return path, path


@pytest.mark.parametrize("kind", ["folder", "list", "tar", "tar.gz", "zip"])
def test_images_of_other_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def call() -> None:
        opened = image_sources.FileList(source) if kind == "list" else image_sources.open_sources([source])[0]
        write_images(Plan((opened,), Shaping(), rows_per_chunk=1), tmp_path / "x.zarr", workers=1)

    source, inner = image_source(tmp_path, kind, 0)
    interrupted(monkeypatch, call, after=1)
    whole = inner.read_bytes()
    other = image_source(tmp_path / "other", kind, 90)[1].read_bytes()
    replaced(inner, lambda: inner.write_bytes(other))
    with pytest.raises(ValueError, match=r"begun from other .* \(changed since: .*\((content|files)"):
        call()
    assert not (tmp_path / "x.zarr").exists()
    replaced(inner, lambda: inner.write_bytes(whole))
    call()
    np.testing.assert_array_equal(rows(tmp_path / "x.zarr"), [noise(k) for k in range(6)])


def test_an_archive_that_was_mended_and_others_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = write_tar(tmp_path / "a.tar", {f"{k}.png": encoded(noise(k)) for k in range(3)})
    bad = write_tar(tmp_path / "b.tar.gz", {f"{k}.png": encoded(noise(k)) for k in range(3, 6)}, "w:gz")
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=r"b\.tar\.gz is damaged"):
        images_to_zarr([good, bad], tmp_path / "x.zarr", workers=1)
    bad.write_bytes(whole)
    decoded: list[Any] = []
    real = image_parts.decode
    monkeypatch.setattr(image_parts, "decode", lambda *a: (decoded.append(a), real(*a))[1])
    assert images_to_zarr([good, bad], tmp_path / "x.zarr", workers=1).written == 6
    assert len(decoded) == 3


def test_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 10, (6, 40, 3073), dtype=np.uint8)
    names = [name for side in cifar10.FILES.values() for name in side]
    for name, content in zip(names, records, strict=True):
        (folder / name).write_bytes(content.tobytes())

    def call() -> dict[str, int]:
        return cifar10.prepare([folder], tmp_path / "x.zarr", partial=True, workers=1)

    interrupted(monkeypatch, call, after=1)
    changed = folder / names[2]
    replaced(changed, lambda: changed.write_bytes(records[5].tobytes()))
    with pytest.raises(ValueError, match=rf"begun from other sources or options; .*{names[2]} \(content\)"):
        call()
    replaced(changed, lambda: changed.write_bytes(records[2].tobytes()))
    assert call() == {"train": 200, "test": 40}


def test_the_command_names_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_rows(tmp_path, "a", "npy", ROWS), tmp_path / "x.zarr"
    interrupted(monkeypatch, lambda: arrays_to_zarr([source], target, workers=1))
    np.save(source, OTHER)
    assert prepare_arrays([str(source), str(target)]) == 1
    assert "a.npy (content, time)" in capsys.readouterr().err
