"""H03: checksums of archives are read, and archives that are cut short or joined are refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import prepare_images
from tests.data_prep.image_files import encoded, files_below, noise, write_tar, write_zip
from vmfa_dask.data_prep import image_archives
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

MEMBERS = {f"{seed}.png": encoded(noise(seed)) for seed in range(6)}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": lambda content: gzip.compress(content, mtime=0),
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}
COMPRESSED = [*PACKERS][1:]


def archive(folder: Path, kind: str) -> Path:
    """Write the images as an archive of a kind."""
    path = folder / f"a.{kind}"
    if kind == "zip":
        return write_zip(path, MEMBERS)
    path.write_bytes(PACKERS[kind](write_tar(folder / "plain.tar", MEMBERS).read_bytes()))
    (folder / "plain.tar").unlink(missing_ok=kind == "tar")
    return path


def outcome(source: Path, folder: Path) -> dict[str, bytes] | str:
    """Return the files of the store, or the error; after one there is no store."""
    target = folder / "x.zarr"
    message = ""
    try:
        images_to_zarr([source], target, workers=1)
    except (ValueError, OSError) as error:
        message = str(error)
    shutil.rmtree(folder / "x.zarr.partial", ignore_errors=True)
    if message:
        assert not target.exists()
        assert source.name in message
        assert "\n" not in message
        return message
    found = files_below(target)
    shutil.rmtree(target)
    return found


@pytest.mark.parametrize("kind", [*COMPRESSED, "zip"])
def test_every_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, kind: str) -> None:
    source = archive(tmp_path, kind)
    whole, clean = source.read_bytes(), outcome(source, tmp_path)
    assert isinstance(clean, dict)
    refused = 0
    for place in range(3, len(whole), len(whole) // 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        source.write_bytes(damaged)
        found = outcome(source, tmp_path)
        refused += isinstance(found, str)
        assert found == clean or (isinstance(found, str) and "is damaged" in found), place
    assert refused > 25


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_flip_behind_the_end_of_the_tar_is_refused(tmp_path: Path, kind: str) -> None:
    source = archive(tmp_path, kind)
    content = bytearray(source.read_bytes())
    content[-6] ^= 1  # the checksum or the length at the end of the stream
    source.write_bytes(content)
    assert "is damaged" in outcome(source, tmp_path)


@pytest.mark.parametrize("kind", [*PACKERS, "zip"])
def test_every_cut_is_refused(tmp_path: Path, kind: str) -> None:
    source = archive(tmp_path, kind)
    whole = source.read_bytes()
    end = len(whole.rstrip(b"\0")) if kind == "tar" else len(whole)
    for stop in (*range(0, end, end // 17), end - 1):
        source.write_bytes(whole[:stop])
        assert "is damaged" in outcome(source, tmp_path), stop


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("blocks", [0, 1])
@pytest.mark.parametrize("members_per_part", [2, 4096])
def test_a_tar_cut_at_a_member_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, blocks: int, members_per_part: int
) -> None:
    monkeypatch.setattr(image_archives, "MEMBERS_PER_PART", members_per_part)
    plain = write_tar(tmp_path / "a.tar", MEMBERS).read_bytes()
    member = plain.index(b"4.png")
    source = tmp_path / f"a.{kind}"
    source.write_bytes(PACKERS[kind](plain[:member] + bytes(512 * blocks)))
    assert "cut short" in outcome(source, tmp_path)
    source.write_bytes(PACKERS[kind](plain[:member] + bytes(1024)))
    assert isinstance(outcome(source, tmp_path), dict)


@pytest.mark.parametrize("kind", [*PACKERS, "zip"])
@pytest.mark.parametrize("what", ["garbage", "another"])
def test_what_follows_the_end_is_refused_or_no_part_of_it(tmp_path: Path, kind: str, what: str) -> None:
    source = archive(tmp_path, kind)
    clean = outcome(source, tmp_path)
    whole = source.read_bytes()
    source.write_bytes(whole + (whole if what == "another" else b"garbage " * 99))
    found = outcome(source, tmp_path)
    assert isinstance(found, str) or (what == "garbage" and found == clean)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_streams_that_make_one_tar_are_read(tmp_path: Path, kind: str) -> None:
    """As parallel compressors write them."""
    source = archive(tmp_path, kind)
    clean = outcome(source, tmp_path)
    plain = write_tar(tmp_path / "b.tar", MEMBERS).read_bytes()
    pack = PACKERS[kind]
    source.write_bytes(b"".join(pack(plain[start : start + 700]) for start in range(0, len(plain), 700)) + bytes(8))
    assert outcome(source, tmp_path) == clean
    source.write_bytes(pack(plain[:1000]) + pack(plain[1000:])[:-20])
    assert "is damaged" in outcome(source, tmp_path)


def test_a_directory_that_differs_from_the_members_is_refused(tmp_path: Path) -> None:
    source = archive(tmp_path, "zip")
    whole = source.read_bytes()
    entry = whole.rindex(b"3.png") - 46
    for field in (8, 10, 16, 20, 24, 42, 46):  # flags, compression, checksum, both sizes, place, name
        damaged = bytearray(whole)
        damaged[entry + field] ^= 1
        source.write_bytes(damaged)
        assert "is damaged" in outcome(source, tmp_path), field


def test_the_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = archive(tmp_path, "tar.gz")
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 16
    source.write_bytes(content)
    assert prepare_images([str(source), str(tmp_path / "x.zarr")]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert "a.tar.gz is damaged" in error
    assert not (tmp_path / "x.zarr").exists()
