"""Trees that replace each other as a whole, and never anything but trees of their own kind.

In a folder, the old and the new tree exchange names atomically once the new one is on the disk: one of the two is there
at any moment, whichever process is killed and however many write. Where the file system cannot exchange names, the old
tree is moved aside first and read from there until the new one has its name. Object stores:
`store.replacing_objects`. May import: store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from vmfa_dask.store.disk import flush, flush_tree, remove_tree, swap
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import is_object_store
from vmfa_dask.store.places import place_at
from vmfa_dask.store.replacing_objects import read_objects, replace_objects
from vmfa_dask.store.scratch import owned_folder, owned_folders, remove_orphans
from vmfa_dask.store.trees import MARK, Tree, refuse_to_replace

# In the temporary folder of a process, beside the tree: the tree it writes, the one it moved aside, and that one again
# while it is being removed.
_NEW, _OLD, _GONE = "new", "old", "gone"
_SUFFIX = ".partial"
# Errors of a rename whose target another process has created meanwhile.
_TARGET_EXISTS = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
# A read is repeated only when another process has replaced the tree meanwhile.
_MOST_READS = 100
Result = TypeVar("Result")


def replace_tree(path: str, overwrite: bool, tree: Tree) -> None:
    """Write a tree, in place of an older one of the same kind where that is wanted.

    Parameters
    ----------
    path : str
        Absolute path, or URL of an object store.
    overwrite : bool
        Replace a tree of the same kind. Of several processes that do so at once, the last one wins.
    tree : Tree
        What is written.

    Raises
    ------
    FileExistsError
        If something exists at `path`, and either `overwrite` is not set or it is not such a tree. Nothing has changed
        then.
    OSError
        If it cannot be written; the message names the path. In a folder nothing has changed then; in an object store
        the old tree or the new one is there.
    ValueError
        If `path` is a URL, but not of an object store.
    """
    place = place_at(path)
    if isinstance(place, ObjectPlace):
        replace_objects(place, overwrite, tree)
        return

    def check(folder: str) -> None:
        exists, mark, names = read_consistently(
            folder, lambda at: (os.path.lexists(at), _read_mark(at), _files_of(at)), current=str
        )
        if exists:
            refuse_to_replace(path, overwrite, mark, names, tree)

    _replace_folder(FolderPlace(path), tree.write, check)


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
    if is_object_store(path):
        return read_objects(ObjectPlace(path), lambda: read(path))
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
