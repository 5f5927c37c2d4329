"""Looking at a run, or asking its driver to stop, without holding the run. May import: filelock, store."""

from __future__ import annotations

import os
import time
from typing import Any

from filelock import Timeout

from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import STATE, read_identity, read_kept_state
from vmfa_dask.store.run_layout import CALL, LOCK, STOP


def request_stop(path: str) -> None:
    """Ask the driver of a run to stop after the current pass.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Raises
    ------
    OSError
        If the request cannot be written.
    """
    place_at(path).replace(STOP, "")


def read_state(path: str) -> dict[str, Any] | None:
    """Read the last state that a run has kept; a driver may be working on it.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    dict or None
        The state, as JSON values; None if there is none yet.

    Raises
    ------
    ValueError
        If a file of the run is damaged or of another run; the message names it.
    OSError
        If a file cannot be read.
    """
    place = place_at(path)
    state = read_kept_state(place, read_identity(place))
    return None if state is None else state.values


def read_limits(path: str) -> dict[str, float]:
    """Read the settings that a call may change, of the one that has kept the last state.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    dict
        Settings by name; empty if there is no state, or an earlier version has kept it.

    Raises
    ------
    ValueError
        If a file of the run is damaged or of another run; the message names it.
    OSError
        If a file cannot be read.
    """
    place = place_at(path)
    state = read_kept_state(place, read_identity(place))
    return {} if state is None else state.limits


def read_settings(path: str) -> dict[str, Any]:
    """Read the settings with which a run was begun.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    dict
        Settings by name; empty if there is no run, or `path` cannot be read.

    Raises
    ------
    ValueError
        If the file is damaged or of an unknown format.
    """
    try:
        identity = read_identity(place_at(path))
    except OSError:  # `store.runs.RunFolder` reports what is wrong with the path
        return {}
    return dict((identity.values.get("settings") if identity is not None else None) or {})


def read_sections(path: str) -> dict[str, Any] | None:
    """Read what a run is.

    Parameters
    ----------
    path : str
        Folder or URL.

    Returns
    -------
    dict of str to dict, or None
        Settings, data, plan and start; None if there is no run.

    Raises
    ------
    ValueError
        If the file is damaged or of an unknown format.
    OSError
        If it cannot be read.
    """
    identity = read_identity(place_at(path))
    return None if identity is None else identity.values


def driver_holds(path: str) -> bool | None:
    """Whether a driver is working on a run.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    bool or None
        None in an object store, or where the folder cannot be locked: there is no telling.
    """
    place = place_at(path)
    if not isinstance(place, FolderPlace):
        return None
    target = place.target(LOCK)
    if not os.path.lexists(target):
        return False
    try:
        lock = held_lock(target)
    except Timeout:
        return True
    except OSError:
        return None
    if lock is None:
        return None
    lock.release()
    return False


def seconds_since_kept(path: str) -> float | None:
    """Age of the last state that a run has kept.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    float or None
        Seconds; None without a state, and in an object store.
    """
    place = place_at(path)
    if not isinstance(place, FolderPlace):
        return None
    try:
        return max(0.0, time.time() - os.stat(place.target(STATE)).st_mtime)
    except FileNotFoundError:
        return None


def note_call(path: str, text: str) -> None:
    """Keep the options of the command that works on a run, so that another command can repeat it.

    Parameters
    ----------
    path : str
        Folder or URL of the run.
    text : str
        The options as TOML.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    place_at(path).replace(CALL, text)


def read_call(path: str) -> str | None:
    """Read what `note_call` has kept.

    Parameters
    ----------
    path : str
        Folder or URL of the run.

    Returns
    -------
    str or None
        None if no command has worked on the run.

    Raises
    ------
    ValueError
        If it is not a regular file, or not text.
    OSError
        If it cannot be read.
    """
    return place_at(path).read(CALL)
