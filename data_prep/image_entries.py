"""One candidate for an image, and the rules of what may be read: regular files up to `MAX_FILE_BYTES`.

Imports the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Entry:
    """One candidate: the encoded image, or the reason why it must not be read.

    Attributes
    ----------
    source : str
        Base name of the source.
    key : str
        Name inside of the source, with slashes. It is a label: two members of one name are two entries.
    content : Path, bytes or None
        A file to open, the bytes of an archive member, or None when there is a `refusal`.
    refusal : str
        Empty when the content may be read.
    """

    source: str
    key: str
    content: Path | bytes | None
    refusal: str = ""

    @property
    def name(self) -> str:
        """Source and key, as reports call the entry."""
        return f"{self.source}/{self.key}"


def base_name(path: Path) -> str:
    """Return the last part of a path, also of one like `.` or `..`."""
    return Path(os.path.abspath(path)).name


def file_entry(label: str, key: str, path: Path) -> Entry:
    """Return the entry of a file that may be missing, a link or no regular file."""
    try:
        status = path.lstat()
    except (OSError, ValueError) as error:  # ValueError for names with a zero byte, which a text may hold
        return Entry(label, key, None, f"cannot be found: {getattr(error, 'strerror', None) or error}")
    refusal = refusal_of(stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode), status.st_size)
    return Entry(label, key, None if refusal else path, refusal)


def refusal_of(regular: bool, link: bool, size_bytes: int) -> str:
    """Return why content of this kind must not be read, or an empty string."""
    if link:
        return "a link, not followed"
    if not regular:
        return "not a regular file"
    if size_bytes > MAX_FILE_BYTES:
        return f"{size_bytes} bytes, more than the limit of {MAX_FILE_BYTES}"
    return ""


def digest_of(names: Iterable[str]) -> str:
    """Return a checksum of names and their order."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0")
    return digest.hexdigest()
