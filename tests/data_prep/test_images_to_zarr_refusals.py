"""Bad images are skipped and listed; bad sources, targets and arguments are refused and leave nothing behind."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from PIL import Image

from tests.data_prep.image_files import encoded, link, noise, rows, write_folder, write_tar, write_zip
from vmfa_dask.data_prep import image_parts, image_store, shards
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr


def test_bad_members_of_an_archive(tmp_path: Path) -> None:
    photograph = encoded(noise(1), "JPEG")
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = write_tar(
        inner / "images.tar",
        {
            "good.png": encoded(noise(0)),
            "cut.jpg": photograph[: len(photograph) * 2 // 3],
            "notes.txt": b"not an image at all",
            "soft.png": link("soft.png", "good.png"),
            "hard.png": link("hard.png", "good.png", tarfile.LNKTYPE),
            "pipe.png": link("pipe.png", "", tarfile.FIFOTYPE),
            "folder": link("folder", "", tarfile.DIRTYPE),
            "../evil.png": encoded(noise(2)),
            f"{tmp_path}/evil.png": encoded(noise(3)),
        },
    )
    report = images_to_zarr([archive], inner / "out.zarr")
    reasons = dict(report.skipped)
    bad = ("cut.jpg", "notes.txt", "soft.png", "hard.png", "pipe.png")
    assert list(reasons) == [f"images.tar/{name}" for name in bad]
    assert "cannot be decoded" in reasons["images.tar/cut.jpg"]
    assert "not an image" in reasons["images.tar/notes.txt"]
    assert "link" in reasons["images.tar/soft.png"]
    assert "link" in reasons["images.tar/hard.png"]
    assert "regular" in reasons["images.tar/pipe.png"]
    # A member's name is never a path: such images are read like all others and nothing appears where they point to.
    np.testing.assert_array_equal(rows(inner / "out.zarr"), [noise(0), noise(2), noise(3)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner"]
    assert sorted(path.name for path in inner.iterdir()) == ["images.tar", "out.zarr"]


def test_bad_members_of_a_zip(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "images.zip", {"good.png": encoded(noise(0)), "../evil.png": encoded(noise(1))})
    with zipfile.ZipFile(source, "a") as archive:
        soft = zipfile.ZipInfo("soft.png")
        soft.create_system, soft.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(soft, str(tmp_path / "images.zip"))
        archive.writestr(zipfile.ZipInfo("secret.png"), encoded(noise(3)))
    content = bytearray(source.read_bytes())
    content[content.index(b"secret.png") - 30 + 6] |= 1  # flags of the member; bit 0 says "encrypted"
    content[content.rindex(b"secret.png") - 46 + 8] |= 1  # those in the directory
    source.write_bytes(content)
    report = images_to_zarr([source], tmp_path / "out.zarr")
    reasons = dict(report.skipped)
    assert report.written == 2
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(0), noise(1)])
    assert "link" in reasons["images.zip/soft.png"]
    assert reasons["images.zip/secret.png"] == "encrypted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images.zip", "out.zarr"]
    assert not (tmp_path.parent / "evil.png").exists()


def test_a_cut_zip_is_named(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    source = write_zip(tmp_path / "images.zip", five_images)
    source.write_bytes(source.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"images.zip is damaged or not a tar or zip archive"):
        images_to_zarr([source], tmp_path / "out.zarr")


def test_links_in_a_folder_are_listed_and_not_followed(tmp_path: Path) -> None:
    outside = write_folder(tmp_path / "outside", {"secret.png": encoded(noise(1))})
    folder = write_folder(tmp_path / "folder", {"good.png": encoded(noise(0))})
    (folder / "file.png").symlink_to(outside / "secret.png")
    (folder / "sub").symlink_to(outside)
    report = images_to_zarr([folder], tmp_path / "out.zarr")
    assert report.written == 1
    assert [name for name, reason in report.skipped if "link" in reason] == ["folder/file.png", "folder/sub"]


def test_sixteen_bit_images_are_not_narrowed_silently(tmp_path: Path) -> None:
    deep = np.full((6, 8), 40_000, np.uint16)
    folder = write_folder(tmp_path / "folder", {"0.png": encoded(noise(0)), "1.png": encoded(deep)})
    report = images_to_zarr([folder], tmp_path / "out.zarr")
    assert report.written == 1
    assert "8 bits" in report.skipped[0].reason


def test_too_many_pixels_are_refused_before_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"0.png": encoded(noise(0)), "1.png": encoded(noise(1, 8, 10)), "2.png": encoded(noise(2, 50, 50))}
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    report = images_to_zarr([write_folder(tmp_path / "folder", files)], tmp_path / "out.zarr", size=(6, 8))
    assert report.written == 1
    assert [name for name, _ in report.skipped] == ["folder/1.png", "folder/2.png"]


def test_a_header_of_a_pixel_bomb_is_refused(tmp_path: Path) -> None:
    fields = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", fields), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    bomb = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    archive = write_tar(tmp_path / "images.tar", {"bomb.png": bomb, "good.png": encoded(noise(0))})
    report = images_to_zarr([archive], tmp_path / "out.zarr", size=(6, 8))
    assert report.written == 1
    assert [name for name, _ in report.skipped] == ["images.tar/bomb.png"]
    assert "3600000000 pixels" in report.skipped[0].reason


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_images_of_one_name_are_rows_of_their_own(tmp_path: Path, kind: str) -> None:
    source, images = tmp_path / f"images.{kind}", [encoded(noise(seed)) for seed in range(3)]
    if kind == "tar":
        with tarfile.open(source, "w") as tar:
            for image in images:
                header = tarfile.TarInfo("same.png")
                header.size = len(image)
                tar.addfile(header, io.BytesIO(image))
    else:
        with zipfile.ZipFile(source, "w") as packed:
            for image in images:
                packed.writestr("same.png", image)
    assert images_to_zarr([source], tmp_path / "out.zarr").written == 3
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(seed) for seed in range(3)])
    split = images_to_zarr([source], tmp_path / "split.zarr", test_share=0.5).rows
    assert sorted(split.values()) == [0, 3]


def test_lists_of_what_is_skipped_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_parts, "LISTED", 3)
    monkeypatch.setattr(image_store, "LISTED", 3)
    texts = {f"{k}{'x' * 90}.txt": b"text" for k in range(5)}
    sources = [write_tar(tmp_path / f"{k}.tar", texts | {"z.png": encoded(noise(k))}) for k in range(2)]
    report = images_to_zarr(sources, tmp_path / "out.zarr")
    assert (report.written, report.n_skipped, len(report.skipped)) == (2, 10, 3)
    assert zarr.open_array(tmp_path / "out.zarr", mode="r").attrs["skipped"] == 10
    assert len((tmp_path / "out.zarr/skipped.jsonl").read_text().splitlines()) == 3


def test_existing_target_is_refused_and_kept(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    folder = write_folder(tmp_path / "folder", five_images)
    images_to_zarr([folder], tmp_path / "out.zarr")
    (folder / "d.png").unlink()
    with pytest.raises(FileExistsError, match=r"out\.zarr exists"):
        images_to_zarr([folder], tmp_path / "out.zarr")
    assert len(rows(tmp_path / "out.zarr")) == 5
    images_to_zarr([folder], tmp_path / "out.zarr", overwrite=True)
    assert len(rows(tmp_path / "out.zarr")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "out.zarr"]


def test_only_a_store_is_overwritten(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    folder = write_folder(tmp_path / "folder", five_images)
    precious = write_folder(tmp_path / "precious", {"thesis.tex": b"text"})
    with pytest.raises(FileExistsError, match="not a Zarr store"):
        images_to_zarr([folder], precious, overwrite=True)
    assert (precious / "thesis.tex").read_bytes() == b"text"


@pytest.mark.parametrize("place", ["folder/out.zarr", "folder", "."])
def test_target_and_source_must_be_apart(tmp_path: Path, five_images: dict[str, bytes], place: str) -> None:
    folder = write_folder(tmp_path / "folder", five_images)
    with pytest.raises(ValueError, match="inside one another"):
        images_to_zarr([folder], tmp_path / place, overwrite=True)
    assert len(list(folder.rglob("*.png"))) == 5


def test_failed_overwrite_keeps_the_old_store(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    images_to_zarr([write_folder(tmp_path / "folder", five_images)], tmp_path / "out.zarr")
    useless = write_folder(tmp_path / "useless", {"0.txt": b"text"})
    with pytest.raises(ValueError, match=r"no image could be read.*useless/0\.txt"):
        images_to_zarr([useless], tmp_path / "out.zarr", overwrite=True)
    assert len(rows(tmp_path / "out.zarr")) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "out.zarr", "useless"]


@pytest.mark.parametrize("cut", [100, 700, 1024 + 300])
@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_cut_archive_stops_the_run_and_leaves_no_store(tmp_path: Path, cut: int, suffix: str) -> None:
    members = {f"{seed}.png": encoded(noise(seed)) for seed in range(20)}
    archive = write_tar(tmp_path / f"images.{suffix}", members, "w:gz" if suffix == "tar.gz" else "w")
    content = archive.read_bytes().rstrip(b"\0") if suffix == "tar" else archive.read_bytes()
    archive.write_bytes(content[:-cut])
    with pytest.raises(ValueError, match=rf"images\.{suffix} is damaged"):
        images_to_zarr([archive], tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()
    assert not list((tmp_path / "out.zarr.partial").rglob("*.tmp"))


def test_damaged_header_is_not_taken_for_the_end(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "images.tar", {f"{seed}.png": encoded(noise(seed)) for seed in range(4)})
    content = bytearray(archive.read_bytes())
    position = content.index(b"2.png")
    content[position : position + 5] = b"junk!"
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="no valid header at byte"):
        images_to_zarr([archive], tmp_path / "out.zarr")


def test_failure_while_writing_leaves_no_store(
    tmp_path: Path, five_images: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    folder = write_folder(tmp_path / "folder", five_images)
    with monkeypatch.context() as patched:
        patched.setattr(shards, "write_raw_shard", full_disk)
        with pytest.raises(OSError, match="no space left"):
            images_to_zarr([folder], tmp_path / "out.zarr", rows_per_chunk=2)
    assert not (tmp_path / "out.zarr").exists()
    assert images_to_zarr([folder], tmp_path / "out.zarr", rows_per_chunk=2).written == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "out.zarr"]


def test_missing_and_foreign_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        images_to_zarr([tmp_path / "nowhere"], tmp_path / "out.zarr")
    (tmp_path / "images.zip").write_bytes(b"PK\3\4 and so on" * 100)
    with pytest.raises(ValueError, match=r"images\.zip is damaged or not a tar or zip archive"):
        images_to_zarr([tmp_path / "images.zip"], tmp_path / "out.zarr")
    (tmp_path / "notes.txt").write_text("text")
    with pytest.raises(ValueError, match=r"notes\.txt is damaged or not a tar or zip archive: [^\n]*$"):
        images_to_zarr([tmp_path / "notes.txt"], tmp_path / "out.zarr")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("size", (0, 4)), ("size", (1, 2, 3)), ("channels", 4), ("rows_per_chunk", 0), ("workers", 0)],
)
def test_arguments_out_of_range_are_named(tmp_path: Path, argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be"):
        images_to_zarr([tmp_path], tmp_path / "out.zarr", **{argument: value})
