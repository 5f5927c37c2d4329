"""Durable writes, atomic renames and safe removal on a local or shared disk.

Bytes are on the disk before a name leads to them, names change atomically, and links are never followed.
May import: nothing.
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

# Some file systems cannot sync a folder, or cannot sync at all.
_NOT_FLUSHED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# File systems that cannot exchange two names, and sandboxes that forbid it.
_NOT_SWAPPED = _NOT_FLUSHED | {errno.EPERM}
_N_FLUSH_THREADS = 16
# Arguments of renameat2 of Linux.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def create(path: str) -> IO[str]:
    """Create a text file, and never open one that exists.

    Parameters
    ----------
    path : str
        Name of the new file.

    Returns
    -------
    text file
        Open for writing, in UTF-8.

    Raises
    ------
    FileExistsError
        If anything has this name, be it a dangling link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return open(os.open(path, flags, 0o666), "w", encoding="utf-8")


def flush(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    File systems that cannot do this are taken as they are.

    Parameters
    ----------
    path : str
        File or folder.

    Raises
    ------
    OSError
        If it cannot be opened, or the disk reports an error.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FLUSHED:
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: str) -> None:
    """Wait until all files and names below a folder are on the disk.

    Parameters
    ----------
    folder : str
        Top of the tree.

    Raises
    ------
    OSError
        As for `flush`.
    """
    paths = [os.path.join(parent, name) for parent, _, files in os.walk(folder) for name in (*files, ".")]
    # A journal commits concurrent requests together.
    with ThreadPoolExecutor(_N_FLUSH_THREADS) as pool:
        list(pool.map(flush, paths))


def swap(first: str, second: str) -> bool:
    """Exchange two names atomically: at any moment each leads to one of the two.

    Parameters
    ----------
    first, second : str
        Paths on one file system.

    Returns
    -------
    bool
        False where the system or the file system cannot exchange names; nothing has changed then.

    Raises
    ------
    FileNotFoundError
        If one of them does not exist.
    OSError
        If the exchange fails for another reason.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SWAPPED:
        return False
    raise OSError(code, os.strerror(code), second)


def remove_file(path: str) -> bool:
    """Remove a file.

    Parameters
    ----------
    path : str
        File or link.

    Returns
    -------
    bool
        Whether there was one.

    Raises
    ------
    OSError
        If it cannot be removed.
    """
    try:
        os.remove(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(folder: str, pattern: re.Pattern[str] | None = None) -> None:
    """Remove a folder and its contents as far as possible, without raising.

    Links inside are removed rather than followed; if `folder` itself is a link, nothing happens.

    Parameters
    ----------
    folder : str
        What is removed; it stays as long as something is left in it.
    pattern : re.Pattern or None
        Matches what may be removed: the names of files relative to the folder with ``/`` as separator, and those of
        empty folders with a ``/`` at the end. By default everything.
    """
    if os.path.islink(folder):
        return
    if pattern is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    emptied = {folder}
    for parent, _, files in os.walk(folder, topdown=False):
        relative = os.path.relpath(parent, folder).replace(os.sep, "/")
        prefix = "" if relative == "." else f"{relative}/"
        for name in files:
            with suppress(OSError):  # a file that cannot be removed stays, and so do the folders around it
                if pattern.fullmatch(f"{prefix}{name}"):
                    os.remove(os.path.join(parent, name))
                    emptied.add(parent)
        if parent in emptied or pattern.fullmatch(prefix):
            with suppress(OSError):
                os.rmdir(parent)
                emptied.add(os.path.dirname(parent))
