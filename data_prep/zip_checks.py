"""Checks that the directory of a zip archive and its members say the same, before anything is unpacked.

Imports the standard library only.
"""

from __future__ import annotations

import itertools
import struct
import zipfile
from typing import IO, NamedTuple

_HEADER = struct.Struct("<4s5H3I2H")
_SIGNATURE, _END = b"PK\3\4", b"PK\5\6"
_DESCRIBED_BEHIND, _COMPARED_FLAGS = 0x08, 0x01 | 0x08
_IN_ZIP64 = 0xFFFFFFFF
_LONGEST_END = 22 + 65535
_BLOCK = 2**20


class _Place(NamedTuple):
    start: int
    stop: int
    name: str


def require_sound(archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose members overlap, differ from its directory or are not in it.

    Raises
    ------
    BadZipFile
        Saying which.
    """
    file = archive.fp
    assert file is not None
    places = sorted(_place(file, member) for member in archive.infolist())
    for before, after in itertools.pairwise(places):
        if after.start < before.stop:
            raise zipfile.BadZipFile(f"members {before.name!r} and {after.name!r} overlap")
    if places and places[-1].stop > archive.start_dir:
        raise zipfile.BadZipFile(f"member {places[-1].name!r} reaches into the directory")
    edges = [0, *(edge for place in places for edge in (place.start, place.stop)), archive.start_dir]
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    gaps.append((_end_of_directory(file), file.seek(0, 2)))
    for start, stop in gaps:
        if (found := _find_member(file, start, stop)) is not None:
            raise zipfile.BadZipFile(f"the member at byte {found} is not in its directory; concatenated or cut short")


def _place(file: IO[bytes], member: zipfile.ZipInfo) -> _Place:
    """Where a member lies, its header compared with its entry in the directory."""
    file.seek(member.header_offset)
    raw = file.read(_HEADER.size)
    if len(raw) < _HEADER.size:
        raise zipfile.BadZipFile(f"member {member.filename!r} lies behind the end of the file")
    signature, _, flags, method, _, _, crc, packed, size, n_name, n_extra = _HEADER.unpack(raw)
    differ = signature != _SIGNATURE or method != member.compress_type
    differ |= (flags ^ member.flag_bits) & _COMPARED_FLAGS != 0
    if not flags & _DESCRIBED_BEHIND:
        differ |= crc != member.CRC
        differ |= packed not in (member.compress_size, _IN_ZIP64) or size not in (member.file_size, _IN_ZIP64)
    if differ:
        raise zipfile.BadZipFile(f"the header of member {member.filename!r} differs from the directory")
    start = member.header_offset
    return _Place(start, start + _HEADER.size + n_name + n_extra + member.compress_size, member.filename)


def _end_of_directory(file: IO[bytes]) -> int:
    """Byte behind the last record of the archive and its comment."""
    size = file.seek(0, 2)
    start = max(0, size - _LONGEST_END)
    file.seek(start)
    tail = file.read()
    place = tail.rfind(_END)
    if place < 0:
        return size
    n_comment = int.from_bytes(tail[place + 20 : place + 22], "little")
    return min(size, start + place + 22 + n_comment)


def _find_member(file: IO[bytes], start: int, stop: int) -> int | None:
    """Byte of the first header of a member in a part of the file."""
    file.seek(start)
    overlap = b""
    while start < stop and (block := file.read(min(_BLOCK, stop - start))):
        place = (overlap + block).find(_SIGNATURE)
        if place >= 0:
            return start - len(overlap) + place
        start += len(block)
        overlap = block[-3:]
    return None
