"""Checks that the directory of a zip archive agrees with its members, before anything is unpacked.

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


class _Span(NamedTuple):
    start: int
    stop: int
    name: str


def require_sound(archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose members overlap, differ from its directory or are not in it.

    Parameters
    ----------
    archive : ZipFile
        Opened for reading.

    Raises
    ------
    BadZipFile
        Naming the member.
    """
    file = archive.fp
    assert file is not None
    spans = sorted(_span(file, member) for member in archive.infolist())
    for before, after in itertools.pairwise(spans):
        if after.start < before.stop:
            raise zipfile.BadZipFile(f"members {before.name!r} and {after.name!r} overlap")
    if spans and spans[-1].stop > archive.start_dir:
        raise zipfile.BadZipFile(f"member {spans[-1].name!r} reaches into the directory")
    edges = [0, *(edge for span in spans for edge in (span.start, span.stop)), archive.start_dir]
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    gaps.append((_end_of_directory(file), file.seek(0, 2)))
    for start, stop in gaps:
        if (offset := _find_member(file, start, stop)) is not None:
            raise zipfile.BadZipFile(f"the member at byte {offset} is not in its directory; concatenated or cut short")


def _span(file: IO[bytes], member: zipfile.ZipInfo) -> _Span:
    """The bytes of a member, whose header is compared with its entry in the directory."""
    file.seek(member.header_offset)
    raw = file.read(_HEADER.size)
    if len(raw) < _HEADER.size:
        raise zipfile.BadZipFile(f"member {member.filename!r} lies after the end of the file")
    signature, _, flags, method, _, _, crc, packed, size, n_name, n_extra = _HEADER.unpack(raw)
    differ = signature != _SIGNATURE or method != member.compress_type
    differ |= (flags ^ member.flag_bits) & _COMPARED_FLAGS != 0
    if not flags & _DESCRIBED_BEHIND:
        differ |= crc != member.CRC
        differ |= packed not in (member.compress_size, _IN_ZIP64) or size not in (member.file_size, _IN_ZIP64)
    if differ:
        raise zipfile.BadZipFile(f"the header of member {member.filename!r} differs from the directory")
    start = member.header_offset
    return _Span(start, start + _HEADER.size + n_name + n_extra + member.compress_size, member.filename)


def _end_of_directory(file: IO[bytes]) -> int:
    """Offset of the first byte after the archive and its comment."""
    size = file.seek(0, 2)
    start = max(0, size - _LONGEST_END)
    file.seek(start)
    tail = file.read()
    index = tail.rfind(_END)
    if index < 0:
        return size
    n_comment = int.from_bytes(tail[index + 20 : index + 22], "little")
    return min(size, start + index + 22 + n_comment)


def _find_member(file: IO[bytes], start: int, stop: int) -> int | None:
    """Offset of the first header of a member in a range of the file."""
    file.seek(start)
    overlap = b""
    while start < stop and (block := file.read(min(_BLOCK, stop - start))):
        index = (overlap + block).find(_SIGNATURE)
        if index >= 0:
            return start - len(overlap) + index
        start += len(block)
        overlap = block[-3:]
    return None
