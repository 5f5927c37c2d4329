"""Temporary folders that end with their owner: at once, or, where it was killed, when the next one looks.

A folder carries a mark that says which process of which machine made it, and a lock that this process holds while it
lives. Nothing else is ever removed: no folder without the mark, of another user, of another machine, or of a process
that may live. May import: filelock, store.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vmfa_dask.store.strict import as_json, as_text, read_regular

logger = logging.getLogger("vmfa_dask")

_PREFIX = "vmfa-"
_MARK, _LOCK = "scratch.json", "scratch.lock"
_FORMAT = "vmfa_dask.scratch"
_MOST_BYTES = 2**16  # of a mark


@contextmanager
def scratch_folder(name: str, parent: str | None = None) -> Iterator[str]:
    """A new folder that only this user can enter, for the enclosed lines; what killed owners have left is removed.

    Parameters
    ----------
    name : what it is for, part of its name
    parent : folder in which it is made; by default that of the system

    Raises
    ------
    OSError
        Naming `parent`, where no folder can be made in it.
    """
    parent = os.path.abspath(parent if parent is not None else tempfile.gettempdir())
    _remove_orphans(parent)
    try:
        folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{name}-", dir=parent)
    except OSError as error:
        raise type(error)(error.errno, f"no temporary folder can be made there: {error.strerror}", parent) from error
    lock = _held_lock(folder)
    try:
        _write_mark(folder, locked=lock is not None)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.release()


def in_scratch(path: str) -> bool:
    """Whether a path lies in a folder of `scratch_folder`."""
    return any(_read_mark(str(folder)) is not None for folder in Path(path).parents)


def _held_lock(folder: str) -> FileLock | None:
    """The lock of a new folder; None where the disk has no locks."""
    lock = FileLock(os.path.join(folder, _LOCK), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except (OSError, NotImplementedError, Timeout):
        return None
    return lock


def _write_mark(folder: str, locked: bool) -> None:
    """The mark appears whole, and after the lock is held."""
    mark = {"format": _FORMAT, "locked": locked, **_owner(os.getpid())}
    partial = os.path.join(folder, f"{_MARK}.partial")
    with open(partial, "x", encoding="utf-8") as file:
        json.dump(mark, file)
    os.replace(partial, os.path.join(folder, _MARK))


def _read_mark(folder: str) -> dict[str, Any] | None:
    try:
        content = read_regular(os.path.join(folder, _MARK), _MOST_BYTES)
        mark = as_json(as_text(content, folder), folder) if content is not None else {}
    except (OSError, ValueError):
        return None
    return mark if mark.get("format") == _FORMAT else None


def _owner(pid: int) -> dict[str, Any]:
    """What tells a process from all others: its machine since when that runs, its numbering of processes, its start."""
    return {
        "host": platform.node(),
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": _link("/proc/self/ns/pid"),
        "pid": pid,
        "started": _start_of(pid),
    }


def _start_of(pid: int) -> str | None:
    """When a process began, in ticks of its machine; None where there is no such process, or nobody knows."""
    fields = (_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    # The third field comes first here; a process that has ended and waits to be asked for is gone.
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def _is_of_this_machine(mark: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether the owner's locks, or a restart that has ended them, can be seen from here."""
    if mark.get("boot") == here["boot"]:
        return here["boot"] is not None
    known = isinstance(mark.get("boot"), str) and None not in (here["boot"], here["machine"])
    return known and (mark.get("host"), mark.get("machine")) == (here["host"], here["machine"])


def _is_gone(mark: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether an owner without a lock has certainly ended; where anything is unknown, it may live."""
    if mark.get("boot") != here["boot"]:
        return True
    known = isinstance(mark.get("pid"), int) and isinstance(mark.get("started"), str)
    same_numbers = here["namespace"] is not None and mark.get("namespace") == here["namespace"]
    return known and same_numbers and _start_of(mark["pid"]) != mark["started"]


def _remove_orphans(parent: str) -> None:
    """Remove the folders of owners that were killed; whatever stands in the way is left for another time."""
    with suppress(OSError):
        found = [entry.path for entry in os.scandir(parent) if entry.name.startswith(_PREFIX)]
        for folder in found:
            with suppress(OSError, NotImplementedError, RuntimeError):  # what is locked, first of all
                _remove_orphan(folder)


def _remove_orphan(folder: str) -> None:
    about = os.lstat(folder)
    own = os.path.isdir(folder) and not os.path.islink(folder) and about.st_uid == os.getuid()
    mark, here = _read_mark(folder) if own else None, _owner(os.getpid())
    if mark is None or not _is_of_this_machine(mark, here):
        return
    if mark.get("locked"):
        with FileLock(os.path.join(folder, _LOCK), timeout=0, thread_local=False):
            _remove(folder)
    elif _is_gone(mark, here):
        _remove(folder)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    logger.info("removed %s, which a process that was killed had left", folder)


def _text(path: str) -> str | None:
    """Text of a file of the system; None where there is none, or nothing in it."""
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
