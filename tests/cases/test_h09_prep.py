"""H09: damaged files, a full disk and a second process end with one line that names the file and says what to do."""

from __future__ import annotations

import errno
import gzip
import os
import struct
import tarfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from tests.commands import prepare_arrays, prepare_images
from tests.data_prep.image_files import encoded, noise, write_folder, write_tar
from tests.data_prep.table_files import FORMATS, stored, write_rows
from vmfa_dask.data_prep import builds, hdf5_tables, image_decoding, image_parts, npy_tables, parquet_tables, raw_shards
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.builds import in_work
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.data_prep.recipes import emnist
from vmfa_dask.data_prep.recipes.idx import IdxTable

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("damage", ["flip", "cut", "more"])
def test_tables_are_refused_by_name_or_keep_their_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file_format: str, damage: str
) -> None:
    source = write_rows(tmp_path, "a", file_format, ROWS)
    whole = source.read_bytes()
    for number, place in enumerate(range(1, len(whole), len(whole) // 25)):
        content = bytearray(whole)
        if damage == "flip":
            content[place] ^= 1 << place % 8
        content = {"flip": content, "cut": content[:place], "more": content + content[:place]}[damage]
        source.write_bytes(content)
        target = tmp_path / f"{number}.zarr"
        if prepare_arrays([str(source), str(target)]) == 0:
            assert damage != "cut"
            assert stored(target).shape == ROWS.shape
            continue
        (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
        assert source.name in line
        assert not target.exists()


@pytest.mark.parametrize("value", [-1, -(2**40), 2**60, 2**63, 2**90])
@pytest.mark.parametrize("notation", ["header", "pax"])
def test_a_tar_that_lies_about_sizes(tmp_path: Path, value: int, notation: str) -> None:
    image = encoded(noise(0))
    blocks = image + bytes(-len(image) % 512)
    info = tarfile.TarInfo("a.png")
    if notation == "pax":
        record = f" size={value}\n"
        record = f"{len(record) + 2}{record}"
        info.type, info.size = tarfile.XHDTYPE, len(record)
        content = info.tobuf() + record.encode() + bytes(512 - len(record))
        info.type, info.size = tarfile.REGTYPE, len(image)
        content += info.tobuf() + blocks
    else:
        info.size = len(image)
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[124:136] = (b"\xff" if value < 0 else b"\x80") + (value % 2**88).to_bytes(11, "big")
        header[148:156] = b"%06o\0 " % (sum(header) - sum(header[148:156]) + 256)
        content = bytes(header) + blocks
    first = tarfile.TarInfo("first.png")
    first.size = len(image)
    source = tmp_path / "a.tar"
    for number, start in enumerate((b"", first.tobuf() + blocks)):
        for pack in (bytes, gzip.compress):
            source.write_bytes(pack(start + content + bytes(1024)))
            with pytest.raises(ValueError, match=r"^[^\n]*a\.tar (is damaged|unpacks to more)[^\n]*$"):
                images_to_zarr([source], tmp_path / f"{number}{pack.__name__}.zarr", workers=1)


def test_files_of_another_kind_than_their_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    wrong = tmp_path / "a.npy"
    with wrong.open("wb") as file:
        np.savez(file, x=ROWS)
    for content, meaning in (
        (wrong.read_bytes(), r"a zip archive, as from numpy.savez \(.npz\); save its array by numpy.save"),
        (write_rows(tmp_path / "in", "a", "h5", ROWS).read_bytes(), r"an HDF5 file; rename it"),
        (write_rows(tmp_path / "in", "a", "parquet", ROWS).read_bytes(), r"a Parquet file; rename it"),
        (ROWS.dumps(), "a pickle; save the array by numpy.save"),
    ):
        wrong.write_bytes(content)
        with pytest.raises(ValueError, match=rf"a\.npy cannot be read: it is {meaning}"):
            arrays_to_zarr([wrong], tmp_path / "x.zarr")
    for ending in ("h5", "parquet"):
        np.save(tmp_path / "b.npy", ROWS)
        (tmp_path / "b.npy").rename(tmp_path / f"b.{ending}")
        with pytest.raises(ValueError, match=rf"b\.{ending} cannot be read: "):
            arrays_to_zarr([tmp_path / f"b.{ending}"], tmp_path / "x.zarr")


@pytest.mark.parametrize("value", [h5py.Empty("f4"), np.float32(3), np.zeros((0, 4)), np.zeros((4, 0)), np.zeros(4)])
def test_data_sets_without_rows(tmp_path: Path, value: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = value
    with pytest.raises(ValueError, match=r"a\.h5: shape \(.*\), expected \(rows, features...\) with values"):
        arrays_to_zarr([tmp_path / "a.h5"], tmp_path / "x.zarr")


def test_two_arrays_in_a_file_of_numpy(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.save(file, ROWS)
        np.save(file, ROWS)
    with pytest.raises(ValueError, match=r"a\.npy has .* bytes, its header states .* another array after the first"):
        arrays_to_zarr([tmp_path / "a.npy"], tmp_path / "x.zarr")


def test_damage_that_shows_while_rows_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=np.tile(ROWS, (50, 1)), chunks=(3000, 4), compression="gzip")
    pq.write_table(pa.table({"x": np.tile(ROWS[:, 0], 50)}), tmp_path / "b.parquet", write_page_checksum=True)
    with h5py.File(tmp_path / "a.h5") as file:
        chunk = file["t"].id.get_chunk_info(0)
    page = pq.ParquetFile(tmp_path / "b.parquet").metadata.row_group(0).column(0).data_page_offset
    for name, place in {"a.h5": chunk.byte_offset + chunk.size // 2, "b.parquet": page + 60}.items():
        content = bytearray((tmp_path / name).read_bytes())
        content[place] ^= 255
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} cannot be read: "):
            arrays_to_zarr([tmp_path / name], tmp_path / "x.zarr")
        assert not (tmp_path / "x.zarr").exists()


@pytest.mark.parametrize("packed", [True, False])
def test_files_of_the_idx_format(tmp_path: Path, packed: bool) -> None:
    images = np.random.default_rng(0).integers(0, 256, (50, 28, 28), dtype=np.uint8).tobytes()
    whole = bytes((0, 0, 8, 3)) + struct.pack(">3I", 50, 28, 28) + images
    source = tmp_path / ("a-idx3.gz" if packed else "a-idx3")
    pack = gzip.compress if packed else bytes
    source.write_bytes(pack(whole))
    assert IdxTable.open(source, 3).read(7, 9).tobytes() == images[7 * 784 : 9 * 784]
    shapes = ((49, 28, 28), (2**32 - 1,) * 3, (51, 28, 28))
    lying = [whole[:4] + struct.pack(">3I", *shape) + images for shape in shapes]
    contents = [pack(content) for content in (*lying, whole + b"more", whole[:-1], whole[:9], b"")]
    contents += [pack(whole)[:-9], pack(whole) + b"garbage" * 9]
    if packed:
        flipped = bytearray(pack(whole))
        flipped[-5] ^= 1  # the checksum
        middle = bytearray(pack(whole))
        middle[len(middle) // 2] ^= 1
        contents += [bytes(flipped), bytes(middle)]
    for content in contents:
        source.write_bytes(content)
        with pytest.raises(ValueError, match=source.name):
            IdxTable.open(source, 3)


def test_damaged_images_of_emnist_leave_no_store(tmp_path: Path) -> None:
    for side, n in (("train", 30), ("test", 10)):
        for kind, shape in (("images-idx3", (n, 28, 28)), ("labels-idx1", (n,))):
            content = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
            content += np.random.default_rng(0).integers(0, 9, shape, dtype=np.uint8).tobytes()
            (tmp_path / f"emnist-byclass-{side}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    source = tmp_path / "emnist-byclass-test-images-idx3-ubyte.gz"
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 4
    source.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{source.name} is damaged"):
        emnist.prepare([tmp_path], tmp_path / "x.zarr", partial=True)
    assert not list(tmp_path.glob("x.zarr*"))


def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source = write_rows(tmp_path, "a", "npy", ROWS)
    images = write_folder(tmp_path / "images", {"0.png": encoded(noise(0))})
    monkeypatch.setattr(raw_shards, "_write", full)
    monkeypatch.setattr(zarr.Array, "__setitem__", full)
    for call, path in ((prepare_arrays, source), (prepare_images, images)):
        assert call([str(path), str(tmp_path / "x.zarr")]) == 1
        assert "No space left on device: '" + str(tmp_path / "x.zarr.partial") in capsys.readouterr().err
        (tmp_path / "x.zarr.partial").rename(tmp_path / path.stem.join("zz"))
    monkeypatch.setattr(image_parts._Files, "add", full)
    with pytest.raises(OSError, match=r"No space left on device: .*y\.zarr\.partial/parts"):
        images_to_zarr([images], tmp_path / "y.zarr", workers=1)


def test_a_second_process_on_one_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = write_rows(tmp_path, "a", "npy", ROWS), tmp_path / "x.zarr"
    images = write_folder(tmp_path / "images", {"0.png": encoded(noise(0))})
    monkeypatch.setattr(builds, "WAIT_SECONDS", 0.1)
    with in_work(target):
        for call, path in ((arrays_to_zarr, source), (images_to_zarr, images)):
            with pytest.raises(FileExistsError, match=r"x\.zarr is being written by another process; wait until"):
                call([path], target)
    assert not list(tmp_path.glob("x.zarr*"))
    assert arrays_to_zarr([source], target) == 60


def test_a_damaged_record_of_a_store_in_work(tmp_path: Path) -> None:
    source, target = write_rows(tmp_path, "a", "npy", ROWS), tmp_path / "x.zarr"
    images = write_folder(tmp_path / "images", {"0.png": encoded(noise(0))})
    for content in (b"{", b"\xff", b"[]", b"[" * 100_000, b""):
        for name, call, path in (("build.json", arrays_to_zarr, source), ("plan.json", images_to_zarr, images)):
            write_folder(tmp_path / "x.zarr.partial", {name: content})
            with pytest.raises(ValueError, match=rf"{name} is damaged.*; remove .*x\.zarr\.partial to start over"):
                call([path], target)
            (tmp_path / "x.zarr.partial" / name).unlink()


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_no_damage_passes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(parquet_tables, "_file", fail)
    monkeypatch.setattr(npy_tables, "_require_size", fail)
    monkeypatch.setattr(hdf5_tables, "_require_stored", fail)
    monkeypatch.setattr(image_decoding, "_pixels", fail)
    for file_format in ("npy", "h5", "parquet"):
        with pytest.raises(error):
            arrays_to_zarr([write_rows(tmp_path, "a", file_format, ROWS)], tmp_path / "x.zarr")
    with pytest.raises(error):
        images_to_zarr([write_tar(tmp_path / "a.tar", {"a.png": encoded(noise(0))})], tmp_path / "x.zarr", workers=1)


def test_a_lack_of_memory_is_one_line_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(npy_tables, "_require_size", fail)
    assert prepare_arrays([str(write_rows(tmp_path, "a", "npy", ROWS)), str(tmp_path / "x.zarr")]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: out of memory")
