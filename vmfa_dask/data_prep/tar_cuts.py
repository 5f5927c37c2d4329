"""Finds offsets at which a plain tar archive can be cut, from its headers. Standard library only.

An archive that is not plain has no cuts and is left to `tarfile`.
"""

from __future__ import annotations

import mmap
import tarfile
from pathlib import Path

BLOCK = tarfile.BLOCKSIZE
_MAGIC, _SIZE, _TYPE = slice(257, 262), slice(124, 136), slice(156, 157)
# Regular files, links, devices, folders: one header, then as many bytes as it states.
_MEMBERS = frozenset(b"0\x001234567")
# Long names and attributes of the member that follows.
_PREFIXES = frozenset(b"xLK")


def cuts(path: Path, members_per_part: int) -> list[int]:
    """Find where parts of an archive begin.

    Parameters
    ----------
    path : path
        The archive.
    members_per_part : int
        Number of members in each part but the last.

    Returns
    -------
    list of int
        Offsets in bytes, 0 first; only 0 if the archive is not plain.
    """
    starts, n_members, offset, begins_member = [0], 0, 0, True
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return [0]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as archive:
            while offset + BLOCK <= len(archive):
                header = archive[offset : offset + BLOCK]
                if not header.strip(b"\0"):
                    return starts  # the end of the archive
                size, kind = header[_SIZE].strip(b" \0"), header[_TYPE][0]
                known = kind in _MEMBERS or kind in _PREFIXES
                if header[_MAGIC] != b"ustar" or not known or not size.isdigit() or size.translate(None, b"01234567"):
                    return [0]
                if begins_member and n_members == members_per_part:
                    starts.append(offset)
                    n_members = 0
                begins_member = kind in _MEMBERS
                n_members += begins_member
                # A link may state the size of its target, which does not follow.
                length = 0 if kind in b"123456" else int(size, 8)
                offset += BLOCK + -(-length // BLOCK) * BLOCK
    return starts  # cut short, which reading the last part will show
