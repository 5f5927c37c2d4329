"""What the folder or prefix of a run contains, and what is cleaned up there.

Files of others are never touched: a run does not start among them, and leftovers are removed by name.
May import: store.
"""

from __future__ import annotations

import os
import re

from vmfa_dask.store.folder_place import PARTIAL, FolderPlace
from vmfa_dask.store.marks import MARK, new_mark, parse_mark
from vmfa_dask.store.places import Place
from vmfa_dask.store.run_files import CONTENTS, IDENTITY, STATE
from vmfa_dask.store.scratch import ALL_BUT_MARK
from vmfa_dask.store.version_store import PARTS_OF_VERSIONS

STOP, LOCK, VERSIONS = "stop", "run.lock", "versions"
# The options of the command that began the run, if one did. It is written by a process that may not hold the run, so
# that what is half-written is not removed as the other leftovers are.
CALL = "fit.toml"
_EXCHANGE = "exchange-"
_FILES = (IDENTITY, CONTENTS, STATE, STOP, LOCK)
_LEFTOVER = re.compile(rf"({'|'.join(map(re.escape, _FILES))}){PARTIAL}|\.probe-\d+")
_EXCHANGE_NAME = re.compile(rf"{_EXCHANGE}[0-9a-f]{{8}}")
_PARTIAL_MARK = re.compile(rf"{re.escape(MARK)}{PARTIAL}")
# What operating systems and file servers put into folders by themselves.
_SYSTEM_FILE = re.compile(r"lost\+found|\.DS_Store|\.snapshot|\.nfs[0-9a-f]+")


def refuse_other_files(place: Place) -> None:
    """Refuse a place where a run would be mixed with files of others, or would follow links.

    Parameters
    ----------
    place : Place
        Folder or prefix for a run; it need not exist.

    Raises
    ------
    FileExistsError
        If it holds other files and no run, or links in place of the run's own files.
    """
    if isinstance(place, FolderPlace):
        links = [name for name in (*_FILES, CALL, VERSIONS) if os.path.islink(place.target(name))]
        if links:
            raise FileExistsError(f"{place.path}/{links[0]} is a link, expected a file or folder of the run itself")
    names = place.entries()
    patterns = (_LEFTOVER, _EXCHANGE_NAME, _SYSTEM_FILE)
    others = [
        name
        for name in names
        if name not in {*_FILES, CALL, VERSIONS} and not any(pattern.fullmatch(name) for pattern in patterns)
    ]
    if others and not {IDENTITY, STATE} & set(names):
        raise FileExistsError(
            f"run={place.path!r} holds other files, such as {others[0]!r}, and no run; expected a new or an empty "
            "folder, or one that holds a run"
        )


def remove_leftovers(place: FolderPlace) -> None:
    """Remove what killed drivers have left half-written.

    Parameters
    ----------
    place : FolderPlace
        Folder of a run whose lock this process holds, so that no other driver is writing there.
    """
    for name in place.entries():
        if _LEFTOVER.fullmatch(name):
            place.take(name)
    if os.path.isdir(place.target(VERSIONS)):
        place.remove(VERSIONS, PARTS_OF_VERSIONS)


def make_exchange(place: Place, name: str) -> str:
    """Make the folder or prefix through which the processes of a run exchange versions, and remove older ones.

    Parameters
    ----------
    place : Place
        Folder or prefix of the run.
    name : str
        8 hexadecimal digits that no earlier driver has used.

    Returns
    -------
    str
        Its path or URL.

    Raises
    ------
    OSError
        If it cannot be made; the message names the path.
    """
    remove_exchanges(place)
    exchange = f"{_EXCHANGE}{name}"
    if isinstance(place, FolderPlace):
        with place.writing(exchange):
            os.mkdir(place.target(exchange))
    place.replace(f"{exchange}/{MARK}", new_mark(locked=False))
    return f"{place.path}/{exchange}"


def remove_exchanges(place: Place) -> None:
    """Remove all folders or prefixes of `make_exchange`, each with its mark last.

    Parameters
    ----------
    place : Place
        Folder or prefix of a run that this process holds, so that none belongs to another driver.
    """
    for name in filter(_EXCHANGE_NAME.fullmatch, place.children("")):
        if _is_marked(place, name):
            place.remove(name, ALL_BUT_MARK)
            place.take(f"{name}/{MARK}")
        place.remove(name, _PARTIAL_MARK)  # removes the folder too, if nothing else is left in it


def _is_marked(place: Place, exchange: str) -> bool:
    try:
        return parse_mark(place.read(f"{exchange}/{MARK}")) is not None
    except ValueError:  # not a regular file, or not text
        return False
