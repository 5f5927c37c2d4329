"""Trees that replace each other whole, where nothing else may be lost: what is replaced must be of the same kind.

In a folder the old and the new tree exchange their names at once, when the new one is on the disk: there is one or the
other at any moment, whoever is killed and however many processes write. Where the disk cannot do that, the old one is
moved aside first, and read from there in between. An object store has no renames: there the mark of the tree is removed
first and written last, so that what is half written is never read. May import: store.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from vmfa_dask.store.disk import flush, flush_tree, remove_tree, swap
from vmfa_dask.store.objects import ObjectPlace, is_object_store, zarr_target
from vmfa_dask.store.places import FolderPlace, place_at
from vmfa_dask.store.scratch import owned_folder, owned_folders, remove_orphans

MARK = "zarr.json"
# In the folder of a process that writes beside a tree: what it writes, and what it has moved aside.
_NEW, _OLD, _GONE = "new", "old", "gone"
_SUFFIX = ".partial"
# What a rename says where something is in the way by now.
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
# Each time another process has replaced the tree meanwhile.
_MOST_READS = 100
Result = TypeVar("Result")


def replace_tree(
    path: str, overwrite: bool, write: Callable[[Any], None], is_marked: Callable[[Any], bool], known: re.Pattern[str]
) -> None:
    """Write a tree by ``write(target)`` of zarr, which marks the group as begun at once and as complete in the end.

    Parameters
    ----------
    path : absolute path, or URL of an object store
    overwrite : replace a tree of the same kind; of several processes that do so at once, the last one stays
    is_marked : whether attributes of a group are those of such a tree, complete or begun
    known : names of the files of such a tree, relative to it

    Raises
    ------
    FileExistsError
        When something is there, and `overwrite` is not set or it is something else; nothing has changed then.
    OSError
        Naming the path, where it cannot be written; nothing has changed then.
    ValueError
        For URLs of other services.
    """
    place = place_at(path)
    if isinstance(place, ObjectPlace):
        _replace_objects(place, overwrite, write, is_marked, known)
        return

    def check(there: str) -> None:
        found = read_whole(there, lambda at: (os.path.lexists(at), _text_of(at), _files_of(at)), current=str)
        if found[0]:
            _refuse_others(path, overwrite, *found[1:], is_marked, known)

    _replace_folder(FolderPlace(path), write, check)


def current(path: str) -> str:
    """Where the tree of a folder is: moved aside, while a process is between two renames or was killed there."""
    if is_object_store(path) or os.path.lexists(path):
        return path
    folder, name = os.path.split(path)
    aside = [os.path.join(found, _OLD) for found in owned_folders(folder, f"{name}.", _SUFFIX)]
    there = [(found[2], old) for old in aside if (found := _identity(old)) is not None]
    return max(there)[1] if there else path


def read_whole(path: str, read: Callable[[str], Result], current: Callable[[str], str] = current) -> Result:
    """What ``read(place)`` gives for a tree, all of it from one and the same tree.

    It is read again when another process has replaced the tree meanwhile.

    Parameters
    ----------
    path : absolute path, or URL of an object store
    current : where the tree of a path is
    """
    for _ in range(_MOST_READS):
        place = current(path)
        before = _identity(place)
        try:
            found = read(place)
        except (OSError, ValueError, KeyError):
            if _identity(current(path)) == before:
                raise
            continue
        if _identity(current(path)) == before:
            return found
    return read(current(path))


def _identity(path: str) -> tuple[int, int, int] | None:
    """What tells a folder from one that has its name later; None where there is nothing."""
    try:
        about = os.lstat(path)
    except (OSError, ValueError):
        return None
    return about.st_dev, about.st_ino, about.st_ctime_ns


def _replace_folder(place: FolderPlace, write: Callable[[Any], None], check: Callable[[str], None]) -> None:
    path = place.path
    folder, name = os.path.split(path)

    def put_back(left: str) -> None:
        if not os.path.lexists(path) and os.path.isdir(os.path.join(left, _OLD)):
            os.rename(os.path.join(left, _OLD), path)
        _drop_old(left)

    remove_orphans(folder, f"{name}.", _SUFFIX, put_back)
    check(path)
    with place.writing(""):
        os.makedirs(folder, exist_ok=True)
    with owned_folder(folder, f"{name}.", _SUFFIX) as own:
        with place.writing(""):
            write(os.path.join(own, _NEW))
            flush_tree(os.path.join(own, _NEW))
        while not _take_name(path, own, check):
            pass
        with place.writing(""):
            flush(folder)
        _drop_old(own)


def _take_name(path: str, own: str, check: Callable[[str], None]) -> bool:
    """Let a name lead to the new tree; False where another process has changed what is there just now."""
    check(path)
    new, old = os.path.join(own, _NEW), os.path.join(own, _OLD)
    try:
        if not os.path.lexists(path):
            os.rename(new, path)
        elif swap(new, path):
            _keep_strangers(new, path, check)
        else:
            _drop_old(own)
            os.rename(path, old)
            _move_in(new, old, path, check)
    except FileNotFoundError:
        if not os.path.lexists(new):  # not the other one
            raise
        return False
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def _drop_old(own: str) -> None:
    """Remove what was moved aside and is replaced by now; nobody finds it in parts."""
    with suppress(FileNotFoundError):
        os.rename(os.path.join(own, _OLD), os.path.join(own, _GONE))
        remove_tree(os.path.join(own, _GONE))


def _keep_strangers(there: str, path: str, check: Callable[[str], None]) -> None:
    """Exchange the names once more when what was replaced has become something else since it was looked at."""
    try:
        check(there)
    except FileExistsError:
        swap(there, path)
        raise


def _move_in(new: str, old: str, path: str, check: Callable[[str], None]) -> None:
    """Move the new tree to where the old one was, which is back there when that fails."""
    try:
        check(old)
        os.rename(new, path)
    except BaseException:
        if not os.path.lexists(path):
            os.rename(old, path)
        raise


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
