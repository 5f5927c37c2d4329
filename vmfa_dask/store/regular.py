"""Only regular files are read: opening a named pipe waits for a writer, and a device delivers anything.

Standard library only.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

# What a path may be instead of a regular file, as error messages call it.
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class PathStatus(NamedTuple):
    """What one call of `os.stat` tells of a path.

    Parameters
    ----------
    irregular : str or None
        What the path is instead of a regular file, for messages; None for a regular file, and where there is nothing.
    n_bytes : int or None
        Size of a regular file; None for anything else.
    """

    irregular: str | None
    n_bytes: int | None


def status_of(path: str) -> PathStatus:
    """Kind and size of a path; nothing is opened.

    Parameters
    ----------
    path : str
        Path of a file, a link or nothing; links are followed.

    Returns
    -------
    PathStatus
        Both fields are None where nothing can be found.
    """
    try:
        status = os.stat(path)
    except OSError:
        return PathStatus("a link to nothing" if os.path.islink(path) else None, None)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return PathStatus(None, status.st_size)
    return PathStatus(_KINDS.get(kind, "no regular file"), None)


def irregular(path: str) -> str | None:
    """What a path is instead of a regular file; nothing is opened.

    Parameters
    ----------
    path : str
        Path of a file, a link or nothing; links are followed.

    Returns
    -------
    str or None
        Words for a message, such as "a named pipe"; None for a regular file, and where there is nothing.
    """
    return status_of(path).irregular
