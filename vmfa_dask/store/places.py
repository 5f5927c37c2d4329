"""Places that hold the files of a run or a model, behind one interface.

A folder is a `store.folder_place.FolderPlace`, a prefix in an object store a `store.object_place.ObjectPlace`.
May import: store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol
from urllib.parse import unquote

from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import OBJECT_STORES, is_object_store


def locate(path: str | os.PathLike[str]) -> str:
    """Make a path independent of the working directory of a process.

    Parameters
    ----------
    path : path-like
        Path or URL. ``~`` is the user's home, and ``file://`` leads to a path on this machine.

    Returns
    -------
    str
        An absolute path, or the URL without a slash at its end.

    Raises
    ------
    ValueError
        If a file URL names another machine, or a URL has lost a slash by passing through `pathlib`.
    """
    path = os.fsdecode(path)
    if path.lower().startswith("file://"):
        host, slash, rest = path[len("file://") :].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"{path}: a file URL of the machine {host!r}; expected file:///folder/name, or a path")
        path = unquote(slash + rest)
    if "://" in path:
        return path.rstrip("/")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        raise ValueError(f"{path}: looks like a URL that has lost a slash; pass URLs as strings, not as Path")
    return os.path.abspath(os.path.expanduser(path))


def place_at(path: str) -> Place:
    """Choose the kind of place by a path or URL.

    Parameters
    ----------
    path : str
        As returned by `locate`.

    Returns
    -------
    Place
        A folder or a prefix in an object store. Nothing is created or read yet.

    Raises
    ------
    ValueError
        If it is a URL, but not of an object store.
    ImportError
        If the package for object stores is not installed.
    """
    if "://" not in path:
        return FolderPlace(path)
    if not is_object_store(path):
        raise ValueError(f"{path}: expected a folder or the URL of an object store ({', '.join(OBJECT_STORES)})")
    return ObjectPlace(path)


class Place(Protocol):
    """Files by name, and trees that appear complete.

    Names are relative to the place, with ``/`` as separator. Errors of the disk or the store are `OSError` and name the
    path or URL.
    """

    path: str

    def probe(self) -> None:
        """Find out whether the place can be written.

        Raises
        ------
        OSError
            If it cannot.
        """
        ...

    def free_bytes(self) -> int | None:
        """Bytes that can still be written; None where this is unknown."""
        ...

    def read(self, name: str) -> str | None:
        """Read a text file.

        Parameters
        ----------
        name : str
            The file.

        Returns
        -------
        str or None
            The text; None if there is no such file.

        Raises
        ------
        ValueError
            If it is not a regular file, too long, or not UTF-8.
        """
        ...

    def fetch(self, name: str, most: int) -> bytes | None:
        """Read a file.

        Parameters
        ----------
        name : str
            The file.
        most : int
            Largest size in bytes that is read.

        Returns
        -------
        bytes or None
            The contents; None if there is no such file.

        Raises
        ------
        ValueError
            If it is not a regular file, or longer than `most` bytes.
        """
        ...

    def replace(self, name: str, text: str) -> None:
        """Replace a file atomically; the new contents are durable on return.

        Parameters
        ----------
        name : str
            The file; it need not exist.
        text : str
            New contents.

        Raises
        ------
        RuntimeError
            If another process has written it meanwhile, where the place can tell.
        """
        ...

    def take(self, name: str) -> bool:
        """Remove a file.

        Parameters
        ----------
        name : str
            The file.

        Returns
        -------
        bool
            Whether there was one.
        """
        ...

    def target(self, name: str) -> Any:
        """What zarr opens for a tree of this place.

        Parameters
        ----------
        name : str
            The tree.

        Returns
        -------
        str or zarr.storage.ObjectStore
            Path or store.
        """
        ...

    def holds(self, name: str) -> bool:
        """Whether a tree is known to be there, and complete.

        Parameters
        ----------
        name : str
            The tree.

        Returns
        -------
        bool
            False also where this cannot be told.
        """
        ...

    def writing(self, name: str) -> AbstractContextManager[None]:
        """Let an `OSError` of the enclosed lines name the path.

        Parameters
        ----------
        name : str
            What they write.

        Returns
        -------
        context manager
            Raises the error anew with the path.
        """
        ...

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Write a tree that appears complete, or at least before the marker that names it.

        Parameters
        ----------
        name : str
            The tree.
        write : callable
            Called with what zarr opens.
        """
        ...

    def keep(self, name: str) -> None:
        """Wait until a file that zarr has written is durable.

        Parameters
        ----------
        name : str
            The file.
        """
        ...

    def entries(self) -> list[str]:
        """Sorted names of the files and trees at the top; empty where the place does not exist."""
        ...

    def children(self, name: str) -> list[str]:
        """Names of the trees one level below another one.

        Parameters
        ----------
        name : str
            The upper tree; empty for the place itself.

        Returns
        -------
        list of str
            Sorted names; empty where it does not exist.
        """
        ...

    def remove(self, name: str, pattern: re.Pattern[str] | None = None) -> None:
        """Remove a tree, or some of its files; nothing happens if it does not exist.

        Parameters
        ----------
        name : str
            The tree; empty for everything.
        pattern : re.Pattern or None
            Matches the names, relative to the tree, that may be removed. By default all.
        """
        ...
