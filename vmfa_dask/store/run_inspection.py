"""Looking at a run, or asking its driver to stop, without holding the run. May import: store."""

from __future__ import annotations

from typing import Any

from vmfa_dask.store.places import place_at
from vmfa_dask.store.run_files import read_identity, read_kept_state
from vmfa_dask.store.run_layout import STOP


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
