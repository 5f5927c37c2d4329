"""Trees that replace each other as a whole, and never anything but trees of their own kind.

In a folder, the old and the new tree exchange names atomically once the new one is on the disk: one of the two is there
at any moment, whichever process is killed and however many write. Where the file system cannot exchange names, the old
tree is moved aside first and read from there until the new one has its name. An object store has no renames: the mark
of the old tree is removed first and that of the new one written last, so that a half-written tree is never read.
May import: store.
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
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import is_object_store, zarr_target
from vmfa_dask.store.places import place_at
from vmfa_dask.store.scratch import owned_folder, owned_folders, remove_orphans

MARK = "zarr.json"
# In the temporary folder of a process, beside the tree: the tree it writes, the one it moved aside, and that one again
# while it is being removed.
_NEW, _OLD, _GONE = "new", "old", "gone"
_SUFFIX = ".partial"
# Errors of a rename whose target another process has created meanwhile.
_TARGET_EXISTS = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
# A read is repeated only when another process has replaced the tree meanwhile.
_MOST_READS = 100
Result = TypeVar("Result")


def replace_tree(
    path: str, overwrite: bool, write: Callable[[Any], None], is_marked: Callable[[Any], bool], files: re.Pattern[str]
) -> None:
    """Write a tree, in place of an older one of the same kind where that is wanted.

    Parameters
    ----------
    path : str
        Absolute path, or URL of an object store.
    overwrite : bool
        Replace a tree of the same kind. Of several processes that do so at once, the last one wins.
    write : callable
        Called with what zarr opens; marks the group as begun first, and as complete last.
    is_marked : callable
        Whether the attributes of a group are those of such a tree, complete or begun.
    files : re.Pattern
        Matches the names of the files of such a tree, relative to it.

    Raises
    ------
    FileExistsError
        If something exists at `path`, and either `overwrite` is not set or it is not such a tree. Nothing has changed
        then.
    OSError
        If it cannot be written; the message names the path. In a folder nothing has changed then.
    ValueError
        If `path` is a URL, but not of an object store.
    """
    place = place_at(path)
    if isinstance(place, ObjectPlace):
        _replace_objects(place, overwrite, write, is_marked, files)
        return

    def check(tree: str) -> None:
        exists, mark, names = read_consistently(
            tree, lambda at: (os.path.lexists(at), _read_mark(at), _files_of(at)), current=str
        )
        if exists:
            _refuse_to_replace(path, overwrite, mark, names, is_marked, files)

    _replace_folder(FolderPlace(path), write, check)


def current_path(path: str) -> str:
    """Find a tree that may have been moved aside by a process that is between two renames, or was killed there.

    Parameters
    ----------
    path : str
        Absolute path, or URL of an object store.

    Returns
    -------
    str
        Where the tree is now; `path` itself if it is nowhere.
    """
    if is_object_store(path) or os.path.lexists(path):
        return path
    parent, name = os.path.split(path)
    candidates = [os.path.join(folder, _OLD) for folder in owned_folders(parent, f"{name}.", _SUFFIX)]
    identities = [(_identity(candidate), candidate) for candidate in candidates]
    # Of several, the one that was renamed last.
    by_time = [(identity[2], candidate) for identity, candidate in identities if identity is not None]
    return max(by_time)[1] if by_time else path


def read_consistently(
    path: str, read: Callable[[str], Result], current: Callable[[str], str] = current_path
) -> Result:
    """Read all of a tree from one version of it, again if another process has replaced it meanwhile.

    Parameters
    ----------
    path : str
        Absolute path, or URL of an object store.
    read : callable
        Called with the path of the tree.
    current : callable
        Finds the tree of a path.

    Returns
    -------
    Result
        What `read` returned.

    Raises
    ------
    Exception
        Whatever `read` raises while the tree stays the same.
    """
    for _ in range(_MOST_READS):
        tree = current(path)
        before = _identity(tree)
        try:
            result = read(tree)
        except (OSError, ValueError, KeyError):
            if _identity(current(path)) == before:
                raise
            continue
        if _identity(current(path)) == before:
            return result
    return read(current(path))


def _identity(path: str) -> tuple[int, int, int] | None:
    """What tells a folder from a later one of the same name; None where there is nothing."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _replace_folder(place: FolderPlace, write: Callable[[Any], None], check: Callable[[str], None]) -> None:
    path = place.path
    parent, name = os.path.split(path)

    def put_back(orphan: str) -> None:
        if not os.path.lexists(path) and os.path.isdir(os.path.join(orphan, _OLD)):
            os.rename(os.path.join(orphan, _OLD), path)
        _drop_old(orphan)

    remove_orphans(parent, f"{name}.", _SUFFIX, put_back)
    check(path)  # before anything is written; `_take_name` checks again
    with place.writing(""):
        os.makedirs(parent, exist_ok=True)
    with owned_folder(parent, f"{name}.", _SUFFIX) as workspace:
        with place.writing(""):
            write(os.path.join(workspace, _NEW))
            flush_tree(os.path.join(workspace, _NEW))
        while not _take_name(path, workspace, check):
            pass
        with place.writing(""):
            flush(parent)
        _drop_old(workspace)


def _take_name(path: str, workspace: str, check: Callable[[str], None]) -> bool:
    """Let a name lead to the new tree; False if another process has just changed what it leads to."""
    check(path)
    new, old = os.path.join(workspace, _NEW), os.path.join(workspace, _OLD)
    try:
        if not os.path.lexists(path):
            os.rename(new, path)
        elif swap(new, path):
            _undo_unless_replaceable(new, path, check)
        else:
            _drop_old(workspace)
            os.rename(path, old)
            _move_in(new, old, path, check)
    except FileNotFoundError:
        if not os.path.lexists(new):  # it is the new tree that is missing, not the old one
            raise
        return False
    except OSError as error:
        if error.errno not in _TARGET_EXISTS:
            raise
        return False
    return True


def _drop_old(workspace: str) -> None:
    """Remove the tree that was moved aside; renamed first, so that `current_path` never finds parts of it."""
    with suppress(FileNotFoundError):
        os.rename(os.path.join(workspace, _OLD), os.path.join(workspace, _GONE))
        remove_tree(os.path.join(workspace, _GONE))


def _undo_unless_replaceable(replaced: str, path: str, check: Callable[[str], None]) -> None:
    """Exchange the names back if something else was put into the old tree after it was checked."""
    try:
        check(replaced)
    except FileExistsError:
        swap(replaced, path)
        raise


def _move_in(new: str, old: str, path: str, check: Callable[[str], None]) -> None:
    """Move the new tree to where the old one was, and the old one back if that fails."""
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
    files: re.Pattern[str],
) -> None:
    names = place.names()
    if names:
        _refuse_to_replace(place.path, overwrite, place.read(MARK), names, is_marked, files)
        place.take(MARK)
    try:
        with place.writing(MARK):
            write(zarr_target(place.path))
    except BaseException:
        place.remove("")
        raise


def _refuse_to_replace(
    path: str,
    overwrite: bool,
    mark: str | None,
    names: list[str] | None,
    is_marked: Callable[[Any], bool],
    files: re.Pattern[str],
) -> None:
    """Raise unless what is at `path` may be replaced; `names` are its files, None where it is not a folder."""
    try:
        attributes = json.loads(mark)["attributes"] if mark is not None else None
        marked = is_marked(attributes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        marked = False
    other_files = [name for name in names or [] if not files.fullmatch(name)]
    if names is None or (names and not marked):
        raise FileExistsError(f"{path} exists and is not a model, so it is not replaced; choose another path")
    if other_files:
        raise FileExistsError(
            f"{path} holds a model and other files, such as {other_files[0]}, so it is not replaced; move them away"
        )
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")


def _read_mark(path: str) -> str | None:
    """Text of the mark of a folder; None where there is none."""
    try:
        with open(os.path.join(path, MARK), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _files_of(path: str) -> list[str] | None:
    """Files and links below a folder, relative to it; None where it is not a folder."""
    if os.path.islink(path) or not os.path.isdir(path):
        return None
    names = []
    for folder, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        names += [os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/") for name in [*files, *links]]
    return sorted(names)
