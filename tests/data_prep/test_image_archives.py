"""Headers of archives are read as `tarfile` reads them, only faster."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.data_prep.image_files import write_tar
from vmfa_dask.data_prep import image_archives
from vmfa_dask.data_prep.image_archives import Archive

NAMES = ["a.png", "./b.png", "x" * 60 + "/" + "y" * 90 + ".png", "ü/ä.png", "d/" * 70 + "z.png", "odd\n.png"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_names_and_contents_are_those_of_tarfile(tmp_path: Path, form: int, mode: str) -> None:
    names = NAMES + ([] if form == tarfile.USTAR_FORMAT else ["w" * 300])
    with tarfile.open(tmp_path / "a.tar", mode, format=form) as archive:  # type: ignore[call-overload]
        for number, name in enumerate(names):
            header = tarfile.TarInfo(name)
            header.size, header.mtime, header.uname = 5 + number, 1e9 + number, "ü"
            archive.addfile(header, io.BytesIO(bytes([number]) * (5 + number)))
    entries = list(Archive(tmp_path / "a.tar").entries())
    assert [entry.key for entry in entries] == names
    assert [entry.content for entry in entries] == [bytes([number]) * (5 + number) for number in range(len(names))]


@pytest.mark.parametrize("position", [0, 130, 150, 156, 300])
def test_a_changed_header_is_damage(tmp_path: Path, position: int) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in NAMES[:2]:
            header = tarfile.TarInfo(name)
            header.size = 600
            archive.addfile(header, io.BytesIO(b"x" * 600))
    content = bytearray((tmp_path / "a.tar").read_bytes())
    content[512 + 1024 + position] ^= 1
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.tar is damaged or not a tar or zip archive"):
        list(Archive(tmp_path / "a.tar").entries())


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("members_per_part", [1, 2, 5, 100])
def test_parts_yield_what_the_archive_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, members_per_part: int
) -> None:
    names = [f"{i:03d}.bin" for i in range(9)]
    if kind != tarfile.USTAR_FORMAT:  # names that need a header of their own
        names[4] = "folder/" * 40 + "long.bin"
        names[8] = "é" * 90 + ".bin"
    with tarfile.open(tmp_path / "a.tar", "w", format=kind) as archive:
        for i, name in enumerate(names):
            header = tarfile.TarInfo(name)
            header.size = 700 * i
            archive.addfile(header, io.BytesIO(bytes([i]) * header.size))
            link = tarfile.TarInfo(f"link-{i}")
            link.type, link.linkname = (tarfile.DIRTYPE, "") if i % 3 else (tarfile.LNKTYPE, names[0])
            archive.addfile(link)
    whole = list(Archive(tmp_path / "a.tar").entries())
    assert [entry.key for entry in whole if not entry.refusal] == names
    monkeypatch.setattr(image_archives, "MEMBERS_PER_PART", members_per_part)
    parts = Archive(tmp_path / "a.tar").parts()
    assert len(parts) == -(-18 // members_per_part)
    assert [entry for part in parts for entry in part.entries()] == whole


@pytest.mark.parametrize("mode", ["w:gz", "w:xz"])
def test_a_compressed_archive_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setattr(image_archives, "MEMBERS_PER_PART", 1)
    path = write_tar(tmp_path / "a.tar.gz", {"a": b"1", "b": b"2"}, mode)
    assert len(Archive(path).parts()) == 1


def test_damage_behind_a_cut_is_named_by_the_part_that_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_archives, "MEMBERS_PER_PART", 2)
    path = write_tar(tmp_path / "a.tar", {f"{i}": bytes(600) for i in range(6)})
    path.write_bytes(path.read_bytes()[: 5 * 1536 + 700])
    *whole, last = Archive(path).parts()
    assert [len(list(part.entries())) for part in whole] == [2, 2]
    with pytest.raises(ValueError, match=r"a\.tar is damaged"):
        list(last.entries())
