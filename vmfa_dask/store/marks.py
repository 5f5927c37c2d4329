"""Marks of temporary folders: which process of which machine made a folder, and whether it may still be alive.

May import: store.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from vmfa_dask.store.strict import as_json, as_text, read_regular

MARK = "scratch.json"
_FORMAT = "vmfa_dask.scratch"
_MOST_BYTES = 2**16


def new_mark(locked: bool) -> str:
    """Text of a mark for a folder that this process makes.

    Parameters
    ----------
    locked : bool
        Whether the process also holds a lock in the folder while it lives.

    Returns
    -------
    str
        A JSON object.
    """
    return json.dumps({"format": _FORMAT, "locked": locked, **owner_of(os.getpid())})


def parse_mark(text: str | None) -> dict[str, Any] | None:
    """Parse a mark.

    Parameters
    ----------
    text : str or None
        Contents of a file, or None if there is none.

    Returns
    -------
    dict or None
        Members of the mark; None if the text is not a mark.
    """
    try:
        mark = as_json(text or "", MARK)
    except ValueError:
        return None
    return mark if mark.get("format") == _FORMAT else None


def read_mark(folder: str) -> dict[str, Any] | None:
    """Read the mark of a folder.

    Parameters
    ----------
    folder : str
        Path of any folder.

    Returns
    -------
    dict or None
        Members of the mark; None if the folder has none that can be read.
    """
    try:
        content = read_regular(os.path.join(folder, MARK), _MOST_BYTES)
        return None if content is None else parse_mark(as_text(content, folder))
    except (OSError, ValueError):
        return None


def owner_of(pid: int) -> dict[str, Any]:
    """Identify a process of this machine among all processes of all machines at all times.

    Parameters
    ----------
    pid : int
        Its number.

    Returns
    -------
    dict
        The machine and its current boot, the namespace of process numbers, and the number and start of the process.
        Members that the system does not tell are None.
    """
    return {
        "host": platform.node(),
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": _link("/proc/self/ns/pid"),
        "pid": pid,
        "started": start_of(pid),
    }


def start_of(pid: int) -> str | None:
    """When a process of this machine began.

    Parameters
    ----------
    pid : int
        Its number.

    Returns
    -------
    str or None
        Clock ticks since the machine was started; None if there is no such process, or the system does not tell.
    """
    # Fields after the name of the command, which may contain spaces: the state first, the start as the twentieth.
    fields = (_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    # Zombies have ended.
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def is_of_this_machine(mark: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether this process can see the owner's locks, or that a restart has released them.

    Parameters
    ----------
    mark : dict
        Mark of a folder.
    here : dict
        `owner_of` this process.

    Returns
    -------
    bool
        False also where it cannot be told.
    """
    if mark.get("boot") == here["boot"]:
        return here["boot"] is not None
    is_known = isinstance(mark.get("boot"), str) and None not in (here["boot"], here["machine"])
    return is_known and (mark.get("host"), mark.get("machine")) == (here["host"], here["machine"])


def is_gone(mark: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether an owner of this machine that holds no lock has certainly ended.

    Parameters
    ----------
    mark : dict
        Mark of a folder, for which `is_of_this_machine` holds.
    here : dict
        `owner_of` this process.

    Returns
    -------
    bool
        False also where it cannot be told.
    """
    if mark.get("boot") != here["boot"]:
        return True
    is_known = isinstance(mark.get("pid"), int) and isinstance(mark.get("started"), str)
    same_numbers = here["namespace"] is not None and mark.get("namespace") == here["namespace"]
    return is_known and same_numbers and start_of(mark["pid"]) != mark["started"]


def _text(path: str) -> str | None:
    """Text of a file of the system; None if it does not exist or is empty."""
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
