"""Trees that replace each other whole, where nothing else may be lost: what is replaced must be of the same kind.

In a folder a tree appears by a rename, and the old one stays until then; a process that is killed on the way leaves the
one or the other. An object store has no renames: there the mark of the tree is removed first and written last, so that
what is half written is never read. May import: store.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable
from typing import Any

from vmfa_dask.store.objects import ObjectPlace, is_object_store, zarr_target
from vmfa_dask.store.places import place_at

MARK = "zarr.json"
_ASIDE = ".replaced"


def replace_tree(
    path: str, overwrite: bool, write: Callable[[Any], None], is_marked: Callable[[Any], bool], known: re.Pattern[str]
) -> None:
    """Write a tree by ``write(target)`` of zarr, which marks the group as begun at once and as complete in the end.

    Parameters
    ----------
    path : absolute path, or URL of an object store
    overwrite : replace a tree of the same kind
    is_marked : whether attributes of a group are those of such a tree, complete or begun
    known : names of the files of such a tree, relative to it

    Raises
    ------
    FileExistsError
        When something is there, and `overwrite` is not set or it is something else; nothing has changed then.
    ValueError
        For URLs of other services.
    """
    place = place_at(path)
    if isinstance(place, ObjectPlace):
        _replace_objects(place, overwrite, write, is_marked, known)
    else:
        _replace_folder(path, overwrite, write, is_marked, known)


def current(path: str) -> str:
    """Where the tree of a folder is: beside its place when a process was killed between the two renames."""
    aside = path + _ASIDE
    return aside if not is_object_store(path) and not os.path.lexists(path) and os.path.isdir(aside) else path


def _replace_folder(
    path: str, overwrite: bool, write: Callable[[Any], None], is_marked: Callable[[Any], bool], known: re.Pattern[str]
) -> None:
    aside = path + _ASIDE
    if os.path.lexists(aside):
        _refuse_others(aside, True, _text_of(aside), _files_of(aside), is_marked, known)
        if os.path.lexists(path):
            shutil.rmtree(aside)
        else:
            os.rename(aside, path)
    if os.path.lexists(path):
        _refuse_others(path, overwrite, _text_of(path), _files_of(path), is_marked, known)
    _remove_leftovers(path)
    partial = f"{path}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial"
    try:
        write(partial)
        if os.path.lexists(path):
            os.rename(path, aside)
        try:
            os.rename(partial, path)
        except OSError:
            if os.path.lexists(aside):
                os.rename(aside, path)
            raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _replace_objects(
    place: ObjectPlace,
    overwrite: bool,
    write: Callable[[Any], None],
    is_marked: Callable[[Any], bool],
    known: re.Pattern[str],
) -> None:
    names = place.names()
    if names:
        _refuse_others(place.path, overwrite, place.read(MARK), names, is_marked, known)
        place.take(MARK)
    try:
        with place.writing(MARK):
            write(zarr_target(place.path))
    except BaseException:
        place.remove("")
        raise


def _refuse_others(
    path: str,
    overwrite: bool,
    mark: str | None,
    names: list[str] | None,
    is_marked: Callable[[Any], bool],
    known: re.Pattern[str],
) -> None:
    """Raise unless what is there may be replaced; `names` are its files, None where it is no folder."""
    try:
        attributes = json.loads(mark)["attributes"] if mark is not None else None
        marked = is_marked(attributes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        marked = False
    strangers = [name for name in names or [] if not known.fullmatch(name)]
    if names is None or (names and not marked):
        raise FileExistsError(f"{path} exists and is no model, so that it is not replaced; choose another place")
    if strangers:
        raise FileExistsError(
            f"{path} holds a model and other files, such as {strangers[0]}, so that it is not replaced; move them away"
        )
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")


def _text_of(path: str) -> str | None:
    """The mark of a folder."""
    try:
        with open(os.path.join(path, MARK), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _files_of(path: str) -> list[str] | None:
    """Files of a folder and what counts as such, relative to it; None where it is a file or a link."""
    if os.path.islink(path) or not os.path.isdir(path):
        return None
    found = []
    for folder, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/") for name in [*files, *links]]
    return sorted(found)


def _remove_leftovers(path: str) -> None:
    """Remove what killed processes of this machine have left half written beside a tree."""
    folder, name = os.path.split(path)
    pattern = re.compile(re.escape(name) + r"\.(\d+)-[0-9a-f]{8}\.partial")
    for entry in os.listdir(folder) if os.path.isdir(folder) else []:
        found = pattern.fullmatch(entry)
        if found and not _is_running(int(found[1])):
            shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
