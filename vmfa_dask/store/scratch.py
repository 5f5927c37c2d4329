"""Temporary folders that end with their owner: at once, or, where it was killed, when the next one looks.

A folder carries a mark that says which process of which machine made it, and a lock that this process holds while it
lives. Nothing else is ever removed: no folder without the mark, of another user, of another machine, or of a process
that may live. (A process that is killed before the mark is written, or while it removes its folder, leaves one with
nothing in it but these two; its name ends in the number of the process.) May import: filelock, store.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from vmfa_dask.store.disk import remove_tree
from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.strict import as_json, as_text, read_regular

logger = logging.getLogger("vmfa_dask")

_PREFIX = "vmfa-"
MARK, _LOCK = "scratch.json", "scratch.lock"
_FORMAT = "vmfa_dask.scratch"
_MOST_BYTES = 2**16  # of a mark
# What is removed last, so that a folder that is removed in part is known for what it is.
ALL_BUT_MARK = re.compile(rf"(?!({re.escape(MARK)}|{re.escape(_LOCK)})$).*", re.DOTALL)
_SKELETON = {_LOCK, f"{MARK}.partial"}


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
    remove_orphans(parent, _PREFIX)
    with owned_folder(parent, f"{_PREFIX}{name}-") as folder:
        yield folder


@contextmanager
def owned_folder(parent: str, prefix: str, suffix: str = "") -> Iterator[str]:
    """A new folder that only this user can enter, for the enclosed lines.

    Parameters
    ----------
    parent : folder in which it is made
    prefix, suffix : how its name begins and ends; in between lie the number of this process and random letters

    Raises
    ------
    OSError
        Naming `parent`, where no folder can be made in it.
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


def _remove(folder: str) -> None:
    """Remove a folder, and what says whose it is last of all."""
    remove_tree(folder, ALL_BUT_MARK)
    for name in (MARK, _LOCK):
        with suppress(OSError):
            os.remove(os.path.join(folder, name))
    remove_tree(folder)


def owned_folders(parent: str, prefix: str, suffix: str = "") -> list[str]:
    """Paths of what is named like a folder of `owned_folder`."""
    pattern = re.compile(rf"{re.escape(prefix)}(.*-)?[a-z0-9_]{{8}}{re.escape(suffix)}")
    with suppress(OSError):
        return sorted(entry.path for entry in os.scandir(parent) if pattern.fullmatch(entry.name))
    return []


def in_scratch(path: str) -> bool:
    """Whether a path lies in a folder of `scratch_folder`."""
    return any(_read_mark(str(folder)) is not None for folder in Path(path).parents)


def _write_mark(folder: str, locked: bool) -> None:
    """The mark appears whole, and after the lock is held."""
    partial = os.path.join(folder, f"{MARK}.partial")
    with open(partial, "x", encoding="utf-8") as file:
        file.write(new_mark(locked))
    os.replace(partial, os.path.join(folder, MARK))


def new_mark(locked: bool) -> str:
    """Text of a mark that says that this process made a folder."""
    return json.dumps({"format": _FORMAT, "locked": locked, **_owner(os.getpid())})


def parse_mark(text: str | None) -> dict[str, Any] | None:
    """What a mark says; None where it is none."""
    try:
        mark = as_json(text or "", MARK)
    except ValueError:
        return None
    return mark if mark.get("format") == _FORMAT else None


def _read_mark(folder: str) -> dict[str, Any] | None:
    try:
        content = read_regular(os.path.join(folder, MARK), _MOST_BYTES)
        return None if content is None else parse_mark(as_text(content, folder))
    except (OSError, ValueError):
        return None


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


def remove_orphans(
    parent: str, prefix: str, suffix: str = "", rescue: Callable[[str], None] = lambda folder: None
) -> None:
    """Remove the folders of owners that were killed; whatever stands in the way is left for another time.

    Parameters
    ----------
    parent, prefix, suffix : as for `owned_folder`
    rescue : called with the path of a folder before it is removed
    """
    for folder in owned_folders(parent, prefix, suffix):
        with suppress(OSError, NotImplementedError, RuntimeError):  # what is locked, first of all
            _remove_orphan(folder, re.escape(suffix), rescue)


def _remove_orphan(folder: str, suffix: str, rescue: Callable[[str], None]) -> None:
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        return
    mark, here = _read_mark(folder), _owner(os.getpid())
    if mark is None:
        _remove_skeleton(folder, suffix)
    elif not _is_of_this_machine(mark, here):
        return
    elif mark.get("locked"):
        with FileLock(os.path.join(folder, _LOCK), timeout=0, thread_local=False):
            _remove_found(folder, rescue)
    elif _is_gone(mark, here):
        _remove_found(folder, rescue)


def _remove_found(folder: str, rescue: Callable[[str], None]) -> None:
    rescue(folder)
    _remove(folder)
    logger.info("removed %s, which a process that was killed had left", folder)


def _remove_skeleton(folder: str, suffix: str) -> None:
    """Remove a folder with nothing in it, whose process was killed before it could say that it is its own."""
    found = re.search(rf"[.-](\d+)-[a-z0-9_]{{8}}{suffix}$", folder)
    tells = _start_of(os.getpid()) is not None  # whether this system says which processes there are
    if found and tells and _start_of(int(found[1])) is None and set(os.listdir(folder)) <= _SKELETON:
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        os.rmdir(folder)


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
