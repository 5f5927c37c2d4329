"""A candidate for an image, and the rule for what may be read: regular files of up to `MAX_FILE_BYTES`.

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
    """An encoded image, or the reason why it must not be read.

    Parameters
    ----------
    source : str
        Base name of the folder or archive, as in reports.
    key : str
        Name inside the source, with slashes. It is a label: two members of the same name are two entries.
    content : path, bytes or None
        A file to open, the bytes of an archive member, or None if there is a `refusal`.
    refusal : str
        Empty when the content may be read.
    """

    source: str
    key: str
    content: Path | bytes | None
    refusal: str = ""

    @property
    def name(self) -> str:
        """Source and key, for reports."""
        return f"{self.source}/{self.key}"


def base_name(path: Path) -> str:
    """Name a source by the last part of its path.

    Parameters
    ----------
    path : path
        May be relative, such as ``.`` or ``..``.

    Returns
    -------
    str
        The last part of the absolute path.
    """
    return Path(os.path.abspath(path)).name


def file_entry(label: str, key: str, path: Path) -> Entry:
    """Make the entry of a file, which is refused if it is missing, a link, not regular or too large.

    Parameters
    ----------
    label : str
        Base name of the source.
    key : str
        Name inside the source.
    path : path
        The file.

    Returns
    -------
    Entry
        With the path as its content, or a refusal.
    """
    try:
        status = path.lstat()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte, as a text may hold
        return Entry(label, key, None, f"cannot be found: {getattr(error, 'strerror', None) or error}")
    refusal = refusal_of(stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode), status.st_size)
    return Entry(label, key, None if refusal else path, refusal)


def refusal_of(regular: bool, link: bool, size_bytes: int) -> str:
    """Say why content must not be read.

    Parameters
    ----------
    regular, link : bool
        Whether it is a regular file, or a link.
    size_bytes : int
        Its size.

    Returns
    -------
    str
        The reason; empty if it may be read.
    """
    if link:
        return "a link, not followed"
    if not regular:
        return "not a regular file"
    if size_bytes > MAX_FILE_BYTES:
        return f"{size_bytes} bytes, more than the limit of {MAX_FILE_BYTES}"
    return ""


def digest_of(names: Iterable[str]) -> str:
    """Compute a checksum of names and their order.

    Parameters
    ----------
    names : iterable of str
        In order.

    Returns
    -------
    str
        SHA-256 in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0")
    return digest.hexdigest()
