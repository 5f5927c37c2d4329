"""L06: files of several frames or pages become one row per frame when asked, and are counted otherwise."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.commands import prepare_images
from tests.data_prep.frame_files import FORMATS, animated, grey, tiff_pages
from tests.data_prep.image_files import encoded, files_below, noise, rows, write_folder, write_tar, write_zip
from vmfa_dask.data_prep import image_decoding, image_parts
from vmfa_dask.data_prep.image_decoding import Shaping, decode
from vmfa_dask.data_prep.image_entries import Entry
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.data_prep.splits import HashSplit

N = 50


def source_of(kind: str, folder: Path, files: dict[str, bytes]) -> Path:
    if kind == "folder":
        return write_folder(folder / "in", files)
    if kind == "zip":
        return write_zip(folder / "in.zip", files)
    return write_tar(folder / f"in.{kind}", files, "w:gz" if kind == "tar.gz" else "w")


@pytest.mark.parametrize("container", ["folder", "tar", "tar.gz", "zip"])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [None, (3, 4)])
def test_all_frames_become_rows(tmp_path: Path, kind: str, container: str, size: tuple[int, int] | None) -> None:
    several = [grey(seed) for seed in range(N)]
    files = {f"a.{kind}": animated(several, kind), "b.png": encoded(grey(99))}
    source = source_of(container, tmp_path, files)
    report = images_to_zarr([source], tmp_path / "x.zarr", frames="all", size=size, workers=1)
    assert (report.written, report.skipped, report.unused_files, report.unused_frames) == (N + 1, [], 0, 0)
    single = {f"{k:02d}.png": encoded(pixels) for k, pixels in enumerate([*several, grey(99)])}
    images_to_zarr([write_folder(tmp_path / "single", single)], tmp_path / "y.zarr", size=size, workers=1)
    np.testing.assert_array_equal(rows(tmp_path / "x.zarr"), rows(tmp_path / "y.zarr"))


@pytest.mark.parametrize("container", ["folder", "tar", "zip"])
def test_frames_that_are_not_used_are_counted(
    tmp_path: Path, container: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{kind}.{kind}": animated([grey(k) for k in range(N)], kind) for kind in FORMATS}
    files |= {"one.gif": animated([grey(7)], "gif"), "one.jpg": encoded(noise(3), "JPEG")}
    source = source_of(container, tmp_path, files)
    with caplog.at_level(logging.WARNING, "vmfa_dask.data_prep"):
        assert prepare_images([str(source), str(tmp_path / "x.zarr"), "--workers", "1"]) == 0
    assert "4 file(s) hold 196 frames or pages after their first one, which are not used" in caplog.text
    assert "--frames all" in caplog.text
    assert capsys.readouterr().out == "6 images written, 0 skipped, 196 frames of 4 file(s) not used\n"
    assert zarr.open_array(tmp_path / "x.zarr", mode="r").attrs["unused"] == {"files": 4, "frames": 196}
    assert prepare_images([str(source), str(tmp_path / "y.zarr"), "--frames", "all", "--size", "6", "8"]) == 0
    assert capsys.readouterr().out == "202 images written, 0 skipped\n"


def test_files_of_one_frame_leave_no_notice(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", {f"{seed}.png": encoded(noise(seed)) for seed in range(5)})
    for frames in ("first", "all"):
        report = images_to_zarr([folder], tmp_path / f"{frames}.zarr", frames=frames)
        assert (report.written, report.unused_files) == (5, 0)
    assert files_below(tmp_path / "first.zarr") == files_below(tmp_path / "all.zarr")
    assert "unused" not in zarr.open_array(tmp_path / "all.zarr", mode="r").attrs


def test_frames_of_a_file_are_on_one_side_of_a_split(tmp_path: Path) -> None:
    files = {f"{k}.gif": animated([grey(10 * k + j) for j in range(4)], "gif") for k in range(12)}
    images_to_zarr([write_tar(tmp_path / "in.tar", files)], tmp_path / "x.zarr", frames="all", test_share=0.4, seed=2)
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    split = HashSplit(0.4, 2)
    for side in ("train", "test"):
        expected = [grey(10 * k + j) for k in range(12) if split.side(f"{k}.gif") == side for j in range(4)]
        assert 0 < len(expected) < 48
        np.testing.assert_array_equal(group[side][:], expected)  # type: ignore[index]


OPTIONS: dict[str, Any] = {"frames": "all", "rows_per_chunk": 3}


@pytest.mark.parametrize("workers", [1, 2])
def test_more_frames_than_a_batch_holds(
    tmp_path: Path, workers: int, in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = iter(range(1000))
    counts = [1, 30, 1, 2, 1, 17, 5, 9, 10, 11, 1]
    several = [[grey(next(seeds)) for _ in range(n)] for n in counts]
    files = {f"{k:02d}.tiff": animated(frames, "tiff") for k, frames in enumerate(several)}
    source = write_folder(tmp_path / "in", files)
    expected = [frame for frames in several for frame in frames]
    images_to_zarr([source], tmp_path / "whole.zarr", workers=workers, **OPTIONS)
    np.testing.assert_array_equal(rows(tmp_path / "whole.zarr"), expected)
    monkeypatch.setattr(image_parts, "BATCH_ROW_BYTES", 5 * 6 * 8 * 3)
    images_to_zarr([source], tmp_path / "batches.zarr", workers=workers, **OPTIONS)
    images_to_zarr([source], tmp_path / "cluster.zarr", client=in_process, **OPTIONS)
    assert files_below(tmp_path / "batches.zarr") == files_below(tmp_path / "whole.zarr")
    assert files_below(tmp_path / "cluster.zarr") == files_below(tmp_path / "whole.zarr")


def test_an_interrupted_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [
        write_tar(
            tmp_path / f"{k}.tar",
            {f"{j}.gif": animated([grey(100 * k + 10 * j + i) for i in range(5)], "gif") for j in range(3)},
        )
        for k in range(3)
    ]
    images_to_zarr(sources, tmp_path / "whole.zarr", workers=1, **OPTIONS)
    images_to_zarr(sources, tmp_path / "first.zarr", workers=1, rows_per_chunk=3)
    real, decoded = image_parts.decode, []

    def interrupted(entry: Entry, shaping: Shaping) -> Any:
        decoded.append(entry.name)
        if len(decoded) == 5:
            raise KeyboardInterrupt
        return real(entry, shaping)

    for name, options in {"x": OPTIONS, "y": {"rows_per_chunk": 3}}.items():
        decoded.clear()
        monkeypatch.setattr(image_parts, "decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            images_to_zarr(sources, tmp_path / f"{name}.zarr", workers=1, **options)
        monkeypatch.setattr(image_parts, "decode", real)
        other = {"rows_per_chunk": 3, "frames": "first" if name == "x" else "all"}
        with pytest.raises(ValueError, match="begun from other sources or options"):
            images_to_zarr(sources, tmp_path / f"{name}.zarr", workers=1, **other)
        report = images_to_zarr(sources, tmp_path / f"{name}.zarr", workers=1, **options)
        assert report.unused_frames == (0 if name == "x" else 36)
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "first.zarr")


def test_frames_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    pages = [(grey(0), {}), (noise(1, 6, 9), {}), (np.full((6, 8), 40_000, np.uint16), {}), (noise(3), {274: 3})]
    report = images_to_zarr(
        [write_folder(tmp_path / "in", {"a.tif": tiff_pages(pages)})], tmp_path / "x.zarr", frames="all"
    )
    assert report.written == 2
    np.testing.assert_array_equal(rows(tmp_path / "x.zarr"), [grey(0), np.rot90(noise(3), 2)])
    assert report.skipped[0] == ("in/a.tif, frame 2", "6 x 9 pixels, expected 6 x 8 pixels")
    assert report.skipped[1].name == "in/a.tif, frame 3"
    assert "8 bits" in report.skipped[1].reason


def test_smaller_copies_and_masks_are_no_pages(tmp_path: Path) -> None:
    pages = [(noise(0), {}), (noise(1, 3, 4), {254: 1}), (noise(2), {254: 2}), (noise(3), {254: 4})]
    folder = write_folder(tmp_path / "in", {"a.tif": tiff_pages(pages)})
    report = images_to_zarr([folder], tmp_path / "first.zarr")
    assert (report.written, report.unused_files, report.unused_frames) == (1, 1, 1)
    assert images_to_zarr([folder], tmp_path / "all.zarr", frames="all").skipped == []
    np.testing.assert_array_equal(rows(tmp_path / "all.zarr"), [noise(0), noise(2)])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("share", [0.35, 0.7, 0.95])
def test_cut_files_give_whole_frames_and_reasons(tmp_path: Path, kind: str, share: float) -> None:
    content = animated([grey(k) for k in range(20)], kind)
    files = {"a.png": encoded(grey(0)), f"b.{kind}": content[: int(share * len(content))]}
    report = images_to_zarr([write_folder(tmp_path / "in", files)], tmp_path / "x.zarr", frames="all")
    found = rows(tmp_path / "x.zarr")[1:]
    for k, row in enumerate(found):
        np.testing.assert_array_equal(row, grey(k))
    assert len(found) < 20
    assert report.n_skipped > 0
    first = images_to_zarr([tmp_path / "in"], tmp_path / "y.zarr")
    assert first.unused_frames + first.n_skipped > 0


def test_frames_have_a_limit_of_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_decoding, "MAX_FRAME_PIXELS", 3)
    monkeypatch.setattr(image_decoding.Image, "MAX_IMAGE_PIXELS", 48)
    entry = Entry("in", "a.gif", animated([grey(k) for k in range(5)], "gif"))
    found = list(decode(entry, Shaping(frames="all")))
    assert [frame.number for frame in found] == [1, 2, 3, 4]
    assert found[3].reason == "the file has more than 144 pixels up to this frame of 5"


def test_further_pictures_of_a_photograph_are_no_frames(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "in/a.jpg"
    path.parent.mkdir()
    Image.fromarray(noise(0)).save(path, "MPO", save_all=True, append_images=[Image.fromarray(noise(1))])
    for frames in ("first", "all"):
        report = images_to_zarr([path.parent], tmp_path / f"{frames}.zarr", frames=frames)
        assert (report.written, report.n_skipped, report.unused_files) == (1, 0, 0)


def test_other_choices_are_refused(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "in")
    with pytest.raises(ValueError, match="frames must be 'first' or 'all', got 'last'"):
        images_to_zarr([tmp_path / "in"], tmp_path / "x.zarr", frames="last")
