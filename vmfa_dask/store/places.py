"""Where the files of a run lie: a folder here, or a prefix in an object store (`store.objects`). May import: store."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from vmfa_dask.store.disk import create, flush, flush_tree, remove_file, remove_tree
from vmfa_dask.store.objects import OBJECT_STORES, ObjectPlace, is_object_store
from vmfa_dask.store.strict import MOST_TEXT, as_text, read_regular

# Ends of names of what is not yet whole: written here, or by Zarr.
PARTIAL = r"\.[0-9a-f]{8,32}\.partial"


def locate(path: str | os.PathLike[str]) -> str:
    """The path as any process finds it: URLs as they are, without a slash at the end; others absolute.

    ``~`` is the home of the user, and ``file://`` leads to a path of this machine.

    Raises
    ------
    ValueError
        When a file URL names another machine, or a URL has lost a slash, as those do that pass through `pathlib`.
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
    """The place of a path or URL.

    Raises
    ------
    ValueError
        When it is the URL of something that is no object store.
    """
    if "://" not in path:
        return FolderPlace(path)
    if not is_object_store(path):
        raise ValueError(f"{path}: expected a folder or the URL of an object store ({', '.join(OBJECT_STORES)})")
    return ObjectPlace(path)


class Place(Protocol):
    """Files by name, and trees that appear whole. Names are relative, with ``/`` between their parts."""

    path: str

    def probe(self) -> None:
        """Find out whether the place can be written.

        Raises
        ------
        OSError
            Naming the place, when it cannot.
        """
        ...

    def free_bytes(self) -> int | None:
        """Bytes that may still be written; None where nobody knows."""
        ...

    def read(self, name: str) -> str | None:
        """Text of a file, None when there is none."""
        ...

    def fetch(self, name: str, most: int) -> bytes | None:
        """Bytes of a file, None when there is none; ValueError where there are more than `most`, or it is no file."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write a file whole, in place of the one that was there; it lasts when this returns."""
        ...

    def take(self, name: str) -> bool:
        """Remove a file; whether there was one."""
        ...

    def target(self, name: str) -> Any:
        """What zarr opens for a tree of this place."""
        ...

    def holds(self, name: str) -> bool:
        """Whether a tree is known to be there, whole."""
        ...

    def writing(self, name: str) -> AbstractContextManager[None]:
        """Let an `OSError` of the enclosed lines name the path."""
        ...

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Write a tree by ``write(target)``; it becomes visible whole, or at least before what marks it is written."""
        ...

    def keep(self, name: str) -> None:
        """Return when a file that somebody else has written lasts."""
        ...

    def entries(self) -> list[str]:
        """Names of the files and trees at the top; none where the place does not exist."""
        ...

    def children(self, name: str) -> list[str]:
        """Names of the trees just below one; none where it does not exist."""
        ...

    def remove(self, name: str, known: re.Pattern[str] | None = None) -> None:
        """Remove a tree, or the files in it whose names, relative to it, are `known`.

        Nothing happens when it is not there.
        """
        ...


class FolderPlace:
    """A local or shared folder.

    Parameters
    ----------
    path : the folder; made when something is written
    lasting : trees outlive a power cut once they are published; False for those that end with their processes
    """

    def __init__(self, path: str, lasting: bool = True) -> None:
        self.path = os.path.abspath(path)
        self._lasting = lasting

    def probe(self) -> None:
        """Make the folder, and write a file without a name: nothing is left of it, whatever happens."""
        with self.writing(""):
            if not os.path.isdir(self.path):
                there = next(str(folder) for folder in Path(self.path).parents if folder.is_dir())
                os.makedirs(self.path, exist_ok=True)
                _flush_folders(os.path.dirname(self.path), there)
            with tempfile.TemporaryFile(dir=self.path) as file:
                file.write(b"ok")
                file.flush()

    def free_bytes(self) -> int | None:
        """Free bytes of the disk."""
        return shutil.disk_usage(self.path).free

    def read(self, name: str) -> str | None:
        """Text of a file."""
        content = self.fetch(name, MOST_TEXT)
        return None if content is None else as_text(content, self.target(name))

    def fetch(self, name: str, most: int) -> bytes | None:
        """Bytes of a regular file."""
        return read_regular(self.target(name), most)

    def replace(self, name: str, text: str) -> None:
        """By a rename, once the text is on the disk."""
        path = self.target(name)
        partial = f"{path}{_new_suffix()}"
        with self.writing(name):
            file = create(partial)
            try:
                with file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                remove_file(partial)
                raise
            flush(os.path.dirname(path))

    def take(self, name: str) -> bool:
        """Whether the file was there."""
        return remove_file(self.target(name))

    def target(self, name: str) -> str:
        """The path."""
        return os.path.join(self.path, *name.split("/")) if name else self.path

    def holds(self, name: str) -> bool:
        """Trees appear by a rename: what is there is whole."""
        return os.path.exists(self.target(name))

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """The same kind of error, with the path that it is about."""
        try:
            yield
        except OSError as error:
            said = f"cannot be written: {error.strerror or error}"
            raise type(error)(error.errno, said, self.target(name)) from error

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """By a rename, once the tree is on the disk.

        Raises
        ------
        OSError
            Naming the path, for example when the disk is full; nothing of the tree is left then.
        """
        path = self.target(name)
        partial = f"{path}{_new_suffix()}"
        with self.writing(name):
            try:
                write(partial)
                if self._lasting:
                    flush_tree(partial)
                os.rename(partial, path)
            except BaseException as error:
                shutil.rmtree(partial, ignore_errors=True)
                # Where it is there, another run of the same task was faster; it wrote the same bytes.
                if not isinstance(error, OSError) or not os.path.exists(path):
                    raise
            if self._lasting:
                _flush_folders(os.path.dirname(path), self.path)

    def keep(self, name: str) -> None:
        """When it is on the disk."""
        if self._lasting:
            flush(self.target(name))

    def entries(self) -> list[str]:
        """Names of the files and folders."""
        return sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []

    def children(self, name: str) -> list[str]:
        """Names of the folders in one; links are none."""
        folder = self.target(name)
        if not os.path.isdir(folder):
            return []
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))

    def remove(self, name: str, known: re.Pattern[str] | None = None) -> None:
        """Remove a folder as far as that is possible; links are not followed."""
        remove_tree(self.target(name), known)


def _flush_folders(folder: str, top: str) -> None:
    """Let the names in a folder last, and those that lead to it from `top`."""
    while True:
        with suppress(PermissionError):  # a folder that may be entered and not read
            flush(folder)
        if folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)


def _new_suffix() -> str:
    """The end of a name that nobody can know beforehand, in the form of `PARTIAL`."""
    return f".{secrets.token_hex(8)}.partial"
