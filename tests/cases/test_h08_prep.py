"""H08: what would take hours or more than a disk is refused before work begins."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.commands import prepare_images
from tests.data_prep.image_files import encoded, noise, write_folder, write_tar, write_zip
from vmfa_dask.data_prep import unpacking
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.data_prep.recipes import celeba, cifar10, emnist, svhn, yfcc100m

IMAGE = encoded(noise(0))
CALLS: dict[str, Callable[[Path, Path], object]] = {
    "images": lambda source, target: images_to_zarr([source], target, workers=1),
    "arrays": lambda source, target: arrays_to_zarr([source], target, workers=1),
    "celeba": lambda source, target: celeba.prepare([source], target),
    "cifar10": lambda source, target: cifar10.prepare([source], target),
    "emnist": lambda source, target: emnist.prepare([source], target),
    "svhn": lambda source, target: svhn.prepare([source], target),
    "yfcc100m": lambda source, target: yfcc100m.prepare([source], target),
}


def overlapping(path: Path, n_members: int, n_bytes: int) -> Path:
    """Write a zip archive whose members all share one stream."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(pack.compress(bytes(2**20)) for _ in range(n_bytes // 2**20)) + pack.flush()
    crc = 0
    for _ in range(n_bytes // 2**20):
        crc = zlib.crc32(bytes(2**20), crc)
    fields = struct.pack("<5H3I2H", 20, 0, 8, 0, 33, crc, len(packed), n_bytes, 5, 0)
    content = b"PK\3\4" + fields + b"a.png" + packed
    entry = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<3H2I", 0, 0, 0, 0, 0) + b"a.png"
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n_members, n_members, len(entry) * n_members, len(content), 0)
    path.write_bytes(content + entry * n_members + end)
    return path


def refused(source: Path, message: str, call: str = "images") -> None:
    """Require an error that names the source, and no store."""
    target = source.parent / "x.zarr"
    with pytest.raises((ValueError, OSError), match=message) as found:
        CALLS[call](source, target)
    assert source.name in str(found.value)
    assert not target.exists()
    assert not list(source.parent.glob("x.zarr.partial/store"))


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    refused(overlapping(tmp_path / "a.zip", 2000, 8 * 2**20), "overlap")
    refused(overlapping(tmp_path / "b.zip", 2, 2**20), "overlap")


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "sparse.tar"])
def test_an_archive_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 2**20)
    source, members = tmp_path / f"a.{kind}", {"a.png": IMAGE} | {f"{k}.bin": bytes(2**19) for k in range(8)}
    if kind == "zip":
        write_zip(source, members)
    elif kind == "tar.gz":
        write_tar(source, members, "w:gz")
    else:
        holes = tarfile.TarInfo("holes.bin")
        holes.pax_headers = {"GNU.sparse.size": str(2**22), "GNU.sparse.map": f"{2**22},0"}
        write_tar(source, {"holes.bin": holes, "a.png": IMAGE})
    refused(source, r"unpacks to more than 1,048,576 bytes .*max_unpacked \(--max-unpacked\)")
    target = tmp_path / "x.zarr"
    assert images_to_zarr([source], target, workers=1, max_unpacked=2**23).written == 1
    assert prepare_images([str(source), str(tmp_path / "y.zarr"), "--max-unpacked", str(2**23)]) == 0
    assert prepare_images([str(source), str(tmp_path / "z.zarr"), "--max-unpacked", str(2**20)]) == 1


def test_the_limit_grows_with_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1000)
    bitmaps = {f"{k}.bmp": encoded(noise(k, 40, 40), "BMP") for k in range(5)}
    for source in (write_tar(tmp_path / "a.tar.gz", bitmaps, "w:gz"), write_zip(tmp_path / "a.zip", bitmaps)):
        assert images_to_zarr([source], tmp_path / f"{source.suffix}.zarr", workers=1).written == 5
    with pytest.raises(ValueError, match="max_unpacked must be at least 1, got 0"):
        images_to_zarr([tmp_path / "a.zip"], tmp_path / "x.zarr", max_unpacked=0)


def test_an_archive_in_an_archive_is_not_unpacked(tmp_path: Path) -> None:
    inner = write_zip(tmp_path / "inner.zip", {"b.png": IMAGE}).read_bytes()
    source = write_tar(tmp_path / "a.tar", {"a.png": IMAGE, "inner.zip": inner, "inner.tar.gz": gzip.compress(inner)})
    report = images_to_zarr([source], tmp_path / "x.zarr", workers=1)
    assert (report.written, report.n_skipped) == (1, 2)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((10**12, 4), {"chunks": (1000, 4)}),
        ((10**12, 4), {"chunks": (1000, 2), "compression": "gzip"}),
        ((1000, 4), {}),
        ((10**5, 4), {"chunks": (1000, 4), "maxshape": (None, 4)}),
    ],
)
def test_rows_of_hdf5_that_were_never_written(
    tmp_path: Path, shape: tuple[int, int], layout: dict[str, object]
) -> None:
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        data = file.create_dataset("t", shape, "f4", **layout)
        if layout:
            data[:2000] = 1
    stored = 2000 if layout else 0
    refused(source, f"states {shape[0]} rows, of which at most {stored} are stored", "arrays")


def test_a_chunk_that_the_index_of_hdf5_does_not_lead_to(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "x.zarr"
    with h5py.File(source, "w") as file:
        file.create_dataset("t", data=np.arange(960.0).reshape(240, 4), chunks=(40, 2), compression="gzip")
    assert arrays_to_zarr([source], target) == 240
    content = source.read_bytes()
    place = content.index(struct.pack("<3Q", 120, 2, 0))  # the key of a chunk
    source.write_bytes(content[:place] + struct.pack("<3Q", 160, 2, 0) + content[place + 24 :])
    with pytest.raises(ValueError, match=r"a\.h5.*(no chunk at|cannot be read|stored)"):
        arrays_to_zarr([source], tmp_path / "y.zarr")


def test_a_chunk_of_hdf5_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", (10**9, 2), "u1", chunks=(10**9, 2), compression="gzip")
    refused(tmp_path / "a.h5", "chunks .* of 2,000,000,000 bytes", "arrays")


@pytest.mark.parametrize("n_rows", [1000, 10**12, 10**18, 10**30])
def test_rows_of_a_header_of_numpy(tmp_path: Path, n_rows: int) -> None:
    source = tmp_path / "a.npy"
    with source.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, 4)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(100 * 16))
    refused(source, rf"its header states .*\({n_rows}, 4\); it is cut short and holds 100 whole rows", "arrays")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, kind: str
) -> None:
    source = tmp_path / "a.npy"
    if kind == "fifo":
        os.mkfifo(source)
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("a.npy")
    else:
        source.symlink_to("/dev/zero")
    expected = {"fifo": "a FIFO", "socket": "a socket", "device": "a device"}[kind]
    refused(source, f"is {expected}, expected a regular file or a folder", call)


def test_a_fifo_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.npy", "train_32x32.mat", "data_batch_1.bin", "list_eval_partition.txt", "a.png"):
        os.mkfifo(tmp_path / "in" / name)
    for call in ("svhn", "celeba", "cifar10"):
        with pytest.raises(ValueError, match="is a FIFO, expected a regular file"):
            CALLS[call](tmp_path / "in", tmp_path / "x.zarr")
    folder = write_folder(tmp_path / "rows", {})
    folder.mkdir()
    os.mkfifo(folder / "a.npy")
    with pytest.raises(ValueError, match=r"a\.npy is a FIFO"):
        arrays_to_zarr([folder], tmp_path / "x.zarr")
    write_folder(tmp_path / "images", {"b.png": IMAGE})
    os.mkfifo(tmp_path / "images/a.png")
    report = images_to_zarr([tmp_path / "images"], tmp_path / "y.zarr", workers=1)
    assert [entry.reason for entry in report.skipped] == ["not a regular file"]


def test_names_of_archives_in_a_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    (tmp_path / "list.txt").write_text("a.tar\n")
    with pytest.raises(ValueError, match=r"a\.tar is a FIFO"):
        yfcc100m.prepare([tmp_path / "list.txt"], tmp_path / "x.zarr")


def test_an_archive_with_a_directory_of_its_own_choice(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "a.zip", {f"{k}.png": encoded(noise(k)) for k in range(3)})
    content = source.read_bytes()
    with zipfile.ZipFile(source) as archive:
        start, first = archive.start_dir, archive.infolist()[0]
    length = 46 + len(first.filename)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(content) - 22 - start - length, start, 0)
    source.write_bytes(content[:start] + content[start + length : -22] + end)
    refused(source, "not in its directory")
