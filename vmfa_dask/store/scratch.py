"""Temporary folders that go away with their owner: at its end or, if it was killed, when the next one looks.

A folder carries a mark that names the process and machine that made it (`store.marks`), and a lock that this process
holds while it lives. No other folder is ever removed: none without the mark, of another user, of another machine, or
of a process that may be alive. The one exception has nothing to lose: a process that is killed before it has written
the mark, or after it has removed it, leaves a folder with at most these two files, whose name includes the number of
the process. May import: filelock, store.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from vmfa_dask.store.disk import remove_tree
from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.marks import MARK, is_gone, is_of_this_machine, new_mark, owner_of, read_mark, start_of

logger = logging.getLogger("vmfa_dask")

_PREFIX = "vmfa-"
_LOCK = "scratch.lock"
# Everything but the files that are removed last, so that a partly removed folder still tells what it is.
ALL_BUT_MARK = re.compile(rf"(?!({re.escape(MARK)}|{re.escape(_LOCK)})$).*", re.DOTALL)
# What a folder without a mark may hold to be removed.
_SKELETON = {_LOCK, f"{MARK}.partial"}


@contextmanager
def scratch_folder(name: str, parent: str | None = None) -> Iterator[str]:
    """Make a temporary folder for the enclosed lines, and remove those that killed processes have left beside it.

    Only this user can enter it.

    Parameters
    ----------
    name : str
        What it is for; becomes part of its name.
    parent : str or None
        Folder in which it is made; by default that of the system.

    Yields
    ------
    str
        Its absolute path.

    Raises
    ------
    OSError
        If no folder can be made in `parent`.
    """
    parent = os.path.abspath(parent if parent is not None else tempfile.gettempdir())
    remove_orphans(parent, _PREFIX)
    with owned_folder(parent, f"{_PREFIX}{name}-") as folder:
        yield folder


@contextmanager
def owned_folder(parent: str, prefix: str, suffix: str = "") -> Iterator[str]:
    """Make a marked and locked folder for the enclosed lines, which only this user can enter.

    Parameters
    ----------
    parent : str
        Folder in which it is made.
    prefix, suffix : str
        How its name begins and ends; the number of this process and random letters are in between.

    Yields
    ------
    str
        Its path.

    Raises
    ------
    OSError
        If no folder can be made in `parent`.
    """
    try:
        folder = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", suffix=suffix, dir=parent)
    except OSError as error:
        raise type(error)(error.errno, f"no temporary folder can be made there: {error.strerror}", parent) from error
    lock: FileLock | None = None
    try:
        lock = held_lock(os.path.join(folder, _LOCK))
        _write_mark(folder, locked=lock is not None)
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            lock.release()


def owned_folders(parent: str, prefix: str, suffix: str = "") -> list[str]:
    """List what is named like the folders of `owned_folder`, whatever it is.

    Parameters
    ----------
    parent, prefix, suffix : str
        As for `owned_folder`.

    Returns
    -------
    list of str
        Sorted paths; empty where `parent` cannot be read.
    """
    pattern = re.compile(rf"{re.escape(prefix)}(.*-)?[a-z0-9_]{{8}}{re.escape(suffix)}")
    with suppress(OSError):
        return sorted(entry.path for entry in os.scandir(parent) if pattern.fullmatch(entry.name))
    return []


def in_scratch(path: str) -> bool:
    """Whether a path is inside a temporary folder of this module.

    Parameters
    ----------
    path : str
        Any path.

    Returns
    -------
    bool
        True if a folder above it carries a mark.
    """
    return any(read_mark(str(folder)) is not None for folder in Path(path).parents)


def remove_orphans(
    parent: str, prefix: str, suffix: str = "", rescue: Callable[[str], None] = lambda folder: None
) -> None:
    """Remove the folders of killed owners; those that cannot be removed are left for another time.

    Parameters
    ----------
    parent, prefix, suffix : str
        As for `owned_folder`.
    rescue : callable
        Called with the path of each folder before it is removed.
    """
    for folder in owned_folders(parent, prefix, suffix):
        # Above all those that are locked: their owners are alive.
        with suppress(OSError, NotImplementedError, RuntimeError):
            _remove_orphan(folder, re.escape(suffix), rescue)


def _write_mark(folder: str, locked: bool) -> None:
    """Write the mark by a rename, so that it is never seen in part; the lock must be held before."""
    partial = os.path.join(folder, f"{MARK}.partial")
    with open(partial, "x", encoding="utf-8") as file:
        file.write(new_mark(locked))
    os.replace(partial, os.path.join(folder, MARK))


def _remove(folder: str) -> None:
    """Remove a folder; the mark and the lock go last."""
    remove_tree(folder, ALL_BUT_MARK)
    for name in (MARK, _LOCK):
        with suppress(OSError):
            os.remove(os.path.join(folder, name))
    remove_tree(folder)


def _remove_orphan(folder: str, suffix: str, rescue: Callable[[str], None]) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    mark, here = read_mark(folder), owner_of(os.getpid())
    if mark is None:
        _remove_skeleton(folder, suffix)
    elif not is_of_this_machine(mark, here):
        return
    elif mark.get("locked"):
        with FileLock(os.path.join(folder, _LOCK), timeout=0, thread_local=False):
            _rescue_and_remove(folder, rescue)
    elif is_gone(mark, here):
        _rescue_and_remove(folder, rescue)


def _rescue_and_remove(folder: str, rescue: Callable[[str], None]) -> None:
    rescue(folder)
    _remove(folder)
    logger.info("removed %s, left behind by a process that was killed", folder)


def _remove_skeleton(folder: str, suffix: str) -> None:
    """Remove an empty folder whose process was killed before it had written the mark, or after removing it."""
    name = re.search(rf"[.-](\d+)-[a-z0-9_]{{8}}{suffix}$", folder)
    lists_processes = start_of(os.getpid()) is not None  # whether this system tells which processes exist
    if name and lists_processes and start_of(int(name[1])) is None and set(os.listdir(folder)) <= _SKELETON:
        for file in os.listdir(folder):
            os.remove(os.path.join(folder, file))
        os.rmdir(folder)
