"""Finds places from which a plain tar archive can be read on, by a look at its headers. Standard library only.

Everything that is not plain is left to `tarfile`: such an archive has no cuts.
"""

from __future__ import annotations

import mmap
import tarfile
from pathlib import Path

BLOCK = tarfile.BLOCKSIZE
_MAGIC, _SIZE, _TYPE = slice(257, 262), slice(124, 136), slice(156, 157)
# Regular files, links, devices, folders: one header and what its size says.
_MEMBERS = frozenset(b"0\x001234567")
# Long names and attributes of the member that follows.
_PREFIXES = frozenset(b"xLK")


def cuts(path: Path, members_per_part: int) -> list[int]:
    """Offsets in bytes, 0 first, at which parts of so many members begin; 0 alone where the archive is not plain."""
    found, n_members, place, begins_member = [0], 0, 0, True
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return [0]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as archive:
            while place + BLOCK <= len(archive):
                header = archive[place : place + BLOCK]
                if not header.strip(b"\0"):
                    return found  # the end
                size, kind = header[_SIZE].strip(b" \0"), header[_TYPE][0]
                known = kind in _MEMBERS or kind in _PREFIXES
                if header[_MAGIC] != b"ustar" or not known or not size.isdigit() or size.translate(None, b"01234567"):
                    return [0]
                if begins_member and n_members == members_per_part:
                    found.append(place)
                    n_members = 0
                begins_member = kind in _MEMBERS
                n_members += begins_member
                # Links state the size of what they lead to, or none; nothing of it follows.
                length = 0 if kind in b"123456" else int(size, 8)
                place += BLOCK + -(-length // BLOCK) * BLOCK
    return found  # cut short, which the last part will find out
