"""Folders and archives of images become the store they should."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import zarr
from PIL import Image

from tests.commands import prepare_images
from tests.data_prep.image_files import encoded, noise, rows, write_folder, write_tar, write_zip
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr


def test_folder_and_archives_give_the_same_array(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    sources = {
        "folder": write_folder(tmp_path / "folder", five_images),
        "tar": write_tar(tmp_path / "images.tar", five_images),
        "gz": write_tar(tmp_path / "images.tar.gz", five_images, "w:gz"),
        "zip": write_zip(tmp_path / "images.zip", {"empty/": b"", **five_images}),
    }
    for name, source in sources.items():
        report = images_to_zarr([source], tmp_path / f"{name}.zarr", rows_per_chunk=2)
        assert (report.written, report.skipped) == (5, [])
        np.testing.assert_array_equal(rows(tmp_path / f"{name}.zarr"), [noise(seed) for seed in range(5)])


def test_image_files_are_sources(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    folder = write_folder(tmp_path / "folder", five_images)
    archive = write_tar(tmp_path / "images.tar", {"x.png": encoded(noise(9))})
    (folder / "link.png").symlink_to(folder / "b.png")
    sources = [folder / "d.png", folder / "b.png", archive, folder / "a/1.png", folder / "link.png"]
    report = images_to_zarr(sources, tmp_path / "out.zarr")
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(seed) for seed in (4, 2, 9, 1)])
    assert report.skipped == [("folder/link.png", "a link, not followed")]
    names = [source["name"] for source in zarr.open_array(tmp_path / "out.zarr", mode="r").attrs["sources"]]
    assert names == ["folder", "images.tar", "a", "folder"]


def test_one_source_needs_no_list(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    folder = write_folder(tmp_path / "folder", five_images)
    for k, one in enumerate((folder, str(folder))):
        assert images_to_zarr(one, tmp_path / f"{k}.zarr").written == 5
    with pytest.raises(ValueError, match="sources: found none, expected at least one path"):
        images_to_zarr([], tmp_path / "x.zarr")


def test_order_is_that_of_sources_and_members(tmp_path: Path) -> None:
    late = write_tar(tmp_path / "late.tar", {"z.png": encoded(noise(0)), "a.png": encoded(noise(1))})
    early = write_folder(tmp_path / "early", {"b.png": encoded(noise(3)), "a.png": encoded(noise(2))})
    images_to_zarr([late, early], tmp_path / "out.zarr", workers=3)
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(seed) for seed in range(4)])


def test_many_more_images_than_are_in_flight_keep_their_order(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "images.tar", {f"{seed}.png": encoded(noise(seed)) for seed in range(60)})
    images_to_zarr([archive], tmp_path / "out.zarr", workers=2, rows_per_chunk=7)
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(seed) for seed in range(60)])


def test_store_describes_itself(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    folder = write_folder(tmp_path / "folder", five_images | {"notes.txt": b"text"})
    archive = write_tar(tmp_path / "images.tar", five_images)
    images_to_zarr([folder, archive], tmp_path / "out.zarr", rows_per_chunk=4)
    array = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert array.shape == (10, 6, 8, 3)
    assert array.chunks == (4, 6, 8, 3)
    assert array.dtype == np.uint8
    assert array.compressors == ()
    assert array.metadata.dimension_names == ("sample", "height", "width", "channel")
    assert array.attrs["sources"] == [
        {"name": "folder", "written": 5, "skipped": 1},
        {"name": "images.tar", "written": 5, "skipped": 0},
    ]


def test_default_chunks_hold_about_two_mebibytes(tmp_path: Path) -> None:
    image = encoded(np.zeros((1000, 700, 3), np.uint8))
    folder = write_folder(tmp_path / "folder", {f"{i}.png": image for i in range(3)})
    images_to_zarr([folder], tmp_path / "out.zarr")
    assert zarr.open_array(tmp_path / "out.zarr", mode="r").chunks == (1, 1000, 700, 3)


def test_black_images_are_written_like_any_other(tmp_path: Path) -> None:
    black = encoded(np.zeros((6, 8, 3), np.uint8))
    folder = write_folder(tmp_path / "folder", {f"{i}.png": black for i in range(4)})
    images_to_zarr([folder], tmp_path / "out.zarr", rows_per_chunk=2)
    assert (tmp_path / "out.zarr/c/0/0/0/0").stat().st_size > 4 * 6 * 8 * 3
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), np.zeros((4, 6, 8, 3)))


def test_other_sizes_are_skipped_and_listed(tmp_path: Path) -> None:
    files = {"0.txt": b"text", "1.png": encoded(noise(0)), "2.png": encoded(noise(1, 6, 9)), "3.png": encoded(noise(2))}
    report = images_to_zarr([write_folder(tmp_path / "folder", files)], tmp_path / "out.zarr")
    assert report.written == 2
    assert report.skipped[1] == ("folder/2.png", "6 x 9 pixels, expected 6 x 8 pixels")
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(0), noise(2)])


def test_resizing_crops_around_the_centre(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = (200, 100, 50)
    folder = write_folder(tmp_path / "folder", {"wide.png": encoded(wide), "small.png": encoded(noise(0, 3, 3))})
    report = images_to_zarr([folder], tmp_path / "out.zarr", size=(5, 5))
    assert (report.written, report.skipped) == (2, [])
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr")[1], np.broadcast_to((200, 100, 50), (5, 5, 3)))


def test_size_is_height_then_width(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    images_to_zarr([write_folder(tmp_path / "folder", five_images)], tmp_path / "out.zarr", size=(2, 7))
    assert rows(tmp_path / "out.zarr").shape == (5, 2, 7, 3)


def test_size_of_the_images_themselves_changes_no_pixel(tmp_path: Path, five_images: dict[str, bytes]) -> None:
    images_to_zarr([write_folder(tmp_path / "folder", five_images)], tmp_path / "out.zarr", size=(6, 8))
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr"), [noise(seed) for seed in range(5)])


def test_grey_colour_palette_and_transparency_share_one_store(tmp_path: Path) -> None:
    colour = np.full((6, 8, 3), (0, 255, 0), np.uint8)
    palette = Image.fromarray(colour).convert("P")
    stream = io.BytesIO()
    palette.save(stream, "PNG", transparency=bytes(range(256)))
    files = {
        "0.png": encoded(noise(0)[..., 0]),
        "1.png": encoded(np.dstack([colour, noise(1)[..., :1]])),
        "2.png": stream.getvalue(),
    }
    folder = write_folder(tmp_path / "folder", files)
    assert images_to_zarr([folder], tmp_path / "colour.zarr").written == 3
    assert images_to_zarr([folder], tmp_path / "grey.zarr", channels=1).written == 3
    np.testing.assert_array_equal(rows(tmp_path / "colour.zarr")[0], np.repeat(noise(0)[..., :1], 3, axis=2))
    np.testing.assert_array_equal(rows(tmp_path / "colour.zarr")[1], colour)
    np.testing.assert_array_equal(rows(tmp_path / "colour.zarr")[2], colour)
    np.testing.assert_array_equal(rows(tmp_path / "grey.zarr")[0], noise(0)[..., :1])
    np.testing.assert_array_equal(rows(tmp_path / "grey.zarr")[2], np.full((6, 8, 1), 150))


def test_stated_orientation_is_applied(tmp_path: Path) -> None:
    image, stream = Image.fromarray(noise(0)), io.BytesIO()
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    image.save(stream, "PNG", exif=exif)
    images_to_zarr([write_folder(tmp_path / "folder", {"0.png": stream.getvalue()})], tmp_path / "out.zarr")
    np.testing.assert_array_equal(rows(tmp_path / "out.zarr")[0], np.rot90(noise(0), -1))


def test_command_line(tmp_path: Path, five_images: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "folder", five_images | {"e\x1b[2J.txt": b"text"})
    archive = write_tar(tmp_path / "images.tar", five_images)
    command = [str(folder), str(archive), str(tmp_path / "out.zarr"), "--size", "3", "4", "--channels", "1"]
    assert prepare_images(command) == 0
    output = capsys.readouterr()
    assert output.out == "10 images written, 1 skipped\n"
    assert output.err.splitlines()[-1].startswith(r"skipped 'folder/e\x1b[2J.txt': ")
    assert rows(tmp_path / "out.zarr").shape == (10, 3, 4, 1)
    assert prepare_images(command) == 1
    assert "exists" in capsys.readouterr().err
