"""What a saved tree consists of, and what may be replaced by one (`store.replacing`).

May import: zarr, numpy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.storage import MemoryStore

MARK = "zarr.json"


@dataclass(frozen=True)
class Tree:
    """A Zarr group that is written as a whole: its arrays first, and the attributes that mark it as complete last.

    Parameters
    ----------
    write_arrays : callable
        Called with an open group, writes the arrays into it.
    attributes : callable
        Gives the attributes of the complete tree. Called with None if the arrays are in the group itself, or with the
        name of the group below it that holds them.
    begun : dict
        Attributes until it is complete.
    is_marked : callable
        Whether attributes are those of such a tree, complete or begun.
    files : re.Pattern
        Matches the names of the files of such a tree, relative to it.
    """

    write_arrays: Callable[[zarr.Group], None]
    attributes: Callable[[str | None], dict[str, Any]]
    begun: dict[str, Any]
    is_marked: Callable[[Any], bool]
    files: re.Pattern[str]

    def write(self, target: Any) -> None:
        """Write all of the tree.

        Parameters
        ----------
        target : path-like or zarr.abc.store.Store
            What zarr opens; nothing is there yet.
        """
        group = zarr.create_group(target, overwrite=True, attributes=self.begun)
        self.write_arrays(group)
        group.attrs.update(self.attributes(None))


def mark_of(attributes: dict[str, Any]) -> str:
    """Text of the file that marks a group.

    Parameters
    ----------
    attributes : dict
        JSON values.

    Returns
    -------
    str
        As zarr writes it.
    """
    files: dict[str, Any] = {}
    zarr.create_group(MemoryStore(files), attributes=attributes)
    return str(files[MARK].to_bytes().decode())


def refuse_to_replace(path: str, overwrite: bool, mark: str | None, names: list[str] | None, tree: Tree) -> None:
    """Raise unless a tree may take the place of what is at a path.

    Parameters
    ----------
    path : str
        Where something is.
    overwrite : bool
        Whether trees of the same kind may be replaced.
    mark : str or None
        Text of the mark that is there.
    names : list of str or None
        Names of the files that are there; None if it is not a folder.
    tree : Tree
        What is to be there.

    Raises
    ------
    FileExistsError
        If `overwrite` is not set, or it is not a tree of the same kind, or there are other files as well.
    """
    try:
        attributes = json.loads(mark)["attributes"] if mark is not None else None
        marked = tree.is_marked(attributes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        marked = False
    other_files = [name for name in names or [] if not tree.files.fullmatch(name)]
    if names is None or (names and not marked):
        raise FileExistsError(f"{path} exists and is not a model, so it is not replaced; choose another path")
    if other_files:
        raise FileExistsError(
            f"{path} holds a model and other files, such as {other_files[0]}, so it is not replaced; move them away"
        )
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
