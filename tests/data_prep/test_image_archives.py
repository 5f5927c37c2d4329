"""Headers of archives are read as `tarfile` reads them, only faster."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from data_prep.image_archives import Archive

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
