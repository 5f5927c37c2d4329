"""Trees in object stores that replace each other as a whole.

An object store has no renames. A tree that replaces another one writes its arrays into a new group below the root, and
then the mark of the root, one object, names that group instead of the old one. The mark is written conditionally: of
several processes, only the one whose mark is still that of the tree it meant to replace gets through, and the others
begin again. So at any moment the mark leads to all arrays of one tree, and these are removed only after it has moved.
May import: zarr, store.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import zarr

from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.strict import MOST_METADATA
from vmfa_dask.store.trees import MARK, Tree, mark_of, refuse_to_replace

# Names of groups of arrays: a digest of the mark that they were written to replace, and a random number.
GROUP_NAME = r"[0-9a-f]{16}-[0-9a-f]{12}"
# Attempts at a read or a write that other processes have disturbed.
_MOST_ATTEMPTS = 100
Result = TypeVar("Result")


def replace_objects(place: ObjectPlace, overwrite: bool, tree: Tree) -> None:
    """Write a tree, in place of an older one of the same kind where that is wanted.

    The first tree at a prefix has its arrays in the root; later ones have them in a group below it.

    Parameters
    ----------
    place : ObjectPlace
        Prefix of the tree.
    overwrite : bool
        Replace a tree of the same kind. Of several processes that do so at once, the last one wins.
    tree : Tree
        What is written.

    Raises
    ------
    FileExistsError
        If something exists there, and either `overwrite` is not set or it is not such a tree.
    OSError
        If it cannot be written, or the old tree not be removed; the message names the URL. The old tree or the new one
        is there then, complete.
    RuntimeError
        If other processes replace the tree all the time.
    """
    for _ in range(_MOST_ATTEMPTS):
        names = place.names()
        mark = place.read(MARK)
        if names:
            refuse_to_replace(place.path, overwrite, mark, names, tree)
        elif mark is not None:
            continue  # written between the two requests
        if _create(place, tree) if mark is None else _replace(place, mark, tree):
            return
    raise RuntimeError(f"{place.path}: other processes replace it all the time; let one process at a time save there")


def read_objects(place: ObjectPlace, read: Callable[[], Result]) -> Result:
    """Read a tree, again if it was replaced meanwhile.

    Parameters
    ----------
    place : ObjectPlace
        Prefix of the tree.
    read : callable
        Reads the mark, and what it names; verifies that this is what the mark says.

    Returns
    -------
    Result
        What `read` returned.

    Raises
    ------
    Exception
        Whatever `read` raises while the mark stays the same.
    """
    for _ in range(_MOST_ATTEMPTS):
        before = place.fetch(MARK, MOST_METADATA)
        try:
            return read()
        except (OSError, ValueError, KeyError):
            if place.fetch(MARK, MOST_METADATA) == before:
                raise
    return read()


def _create(place: ObjectPlace, tree: Tree) -> bool:
    """Write the first tree of a prefix; False if another process got in between."""
    begun = mark_of({**tree.begun, "writer": uuid.uuid4().hex})
    if not _move_mark(place, begun):
        return False
    try:
        with place.writing(MARK):
            tree.write_arrays(zarr.open_group(zarr_target(place.path), mode="r+"))
    except BaseException:
        with suppress(OSError):
            if place.read(MARK) == begun:
                place.remove("")
        raise
    return _move_mark(place, mark_of(tree.attributes(None)))


def _replace(place: ObjectPlace, old_mark: str, tree: Tree) -> bool:
    """Write a tree beside another one and let the mark lead to it; False if the mark has moved meanwhile."""
    group = f"{_digest(old_mark)}-{uuid.uuid4().hex[:12]}"
    try:
        with place.writing(MARK):
            tree.write_arrays(zarr.create_group(place.target(group)))
    except BaseException:
        with suppress(OSError):
            place.remove(group)
        raise
    # When this fails, the store may have the new mark all the same: the arrays stay, for the next save to remove.
    mark = mark_of(tree.attributes(group))
    if not _move_mark(place, mark):
        place.remove(group)
        return False
    # Those who write to replace the old tree will find that the mark has moved; those who replace this one go on.
    kept = rf"{re.escape(MARK)}$|{group}/|{_digest(mark)}-"
    place.remove("", re.compile(rf"(?!{kept})(?:{tree.files.pattern})"))
    return True


def _move_mark(place: ObjectPlace, mark: str) -> bool:
    """Write the mark unless another process has done so since this one read or wrote it."""
    try:
        place.replace(MARK, mark)
    except RuntimeError:
        return False
    return True


def _digest(mark: str) -> str:
    return hashlib.sha256(mark.encode()).hexdigest()[:16]
