"""What a disk must promise: bytes that are on it before a name leads to them, and names that move at once.

Links are never followed here. May import: nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO

# Some file systems cannot be asked to write a folder, or anything, at once.
_NOT_FLUSHED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# Disks that cannot exchange two names, and sandboxes that forbid it.
_NOT_SWAPPED = _NOT_FLUSHED | {errno.EPERM}
_AT_ONCE = 16
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


def create(path: str) -> IO[str]:
    """A new text file; what has this name already, a link too, is left alone.

    Raises
    ------
    FileExistsError
        When something is there.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return open(os.open(path, flags, 0o666), "w", encoding="utf-8")


def flush(path: str) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FLUSHED:
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: str) -> None:
    """Return when all files and names below a folder are on the disk."""
    paths = [os.path.join(inner, name) for inner, _, files in os.walk(folder) for name in (*files, ".")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # what is asked for together, a journal writes together
        list(pool.map(flush, paths))


def swap(one: str, other: str) -> bool:
    """Exchange two names at once, so that each leads to one of the two at any moment; False where nothing can do that.

    Raises
    ------
    FileNotFoundError
        When one of them does not exist.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SWAPPED:
        return False
    raise OSError(code, os.strerror(code), other)


def remove_file(path: str) -> bool:
    """Remove a file; whether there was one."""
    try:
        os.remove(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(folder: str, known: re.Pattern[str] | None = None) -> None:
    """Remove a folder and what is in it, as far as that is possible; a link is left alone.

    Parameters
    ----------
    folder : what is removed; it stays while something is in it
    known : names, relative to the folder and with ``/`` between their parts, of the files that may be removed, and with
        a ``/`` at the end of the empty folders; by default all
    """
    if os.path.islink(folder):
        return
    if known is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    emptied = {folder}
    for inner, _, files in os.walk(folder, topdown=False):
        above = os.path.relpath(inner, folder).replace(os.sep, "/")
        prefix = "" if above == "." else f"{above}/"
        for name in files:
            with suppress(OSError):  # what cannot be removed stays, and the folders around it
                if known.fullmatch(f"{prefix}{name}"):
                    os.remove(os.path.join(inner, name))
                    emptied.add(inner)
        if inner in emptied or known.fullmatch(prefix):
            with suppress(OSError):
                os.rmdir(inner)
                emptied.add(os.path.dirname(inner))
