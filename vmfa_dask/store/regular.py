"""Regular files alone: opening a named pipe waits for a writer, a device gives anything. Standard library only."""

from __future__ import annotations

import os
import stat

# What a path may be in place of a file, as it is called in messages.
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def irregular(path: str) -> str | None:
    """What a path is that is no regular file; None where it is one, or nothing is there. Nothing is opened."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return "a link to nothing" if os.path.islink(path) else None
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "no regular file")


def size_of(path: str) -> int | None:
    """Bytes of a file; None where nothing is there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None
