"""A prefix in an object store as a `store.places.Place`.

Object stores have neither renames nor locks. Files are written as whole objects, and those that mark something as
complete by conditional writes. May import: store.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from vmfa_dask.store.objects import errors_of_store, open_object_store, zarr_target
from vmfa_dask.store.strict import MOST_TEXT, as_text, check_length


class ObjectPlace:
    """A prefix in an object store, as a `store.places.Place`.

    When two drivers work on one run, only the first to move a marker continues: a marker is replaced only if it is
    still the one that this process saw last.

    Parameters
    ----------
    path : str
        URL. Credentials, region and endpoint come from the environment variables that the store's own tools use.

    Raises
    ------
    ImportError
        If the package for object stores is not installed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = open_object_store(path)
        self._tags: dict[str, str | None] = {}  # of the objects that were read or replaced; None: there was none
        self._published: set[str] = set()

    def probe(self) -> None:
        """Write an object and delete it.

        Raises
        ------
        OSError
            If that fails; the message names the URL.
        """
        name = f".probe-{uuid.uuid4().hex[:8]}"
        with errors_of_store(self.path, "cannot be written"):
            self._store.put(name, b"ok")
            self._store.delete(name)

    def free_bytes(self) -> int | None:
        """None: object stores do not report free space."""
        return None

    def read(self, name: str) -> str | None:
        """Read a text object, and remember its tag for `replace`.

        Parameters
        ----------
        name : str
            Key below the prefix.

        Returns
        -------
        str or None
            The text; None if there is no such object.

        Raises
        ------
        ValueError
            If it is too long or not UTF-8.
        OSError
            If it cannot be read.
        """
        content, self._tags[name] = self._get(name, MOST_TEXT)
        return None if content is None else as_text(content, f"{self.path}/{name}")

    def fetch(self, name: str, most: int) -> bytes | None:
        """Read an object.

        Parameters
        ----------
        name : str
            Key below the prefix.
        most : int
            Largest size in bytes that is read.

        Returns
        -------
        bytes or None
            The contents; None if there is no such object.

        Raises
        ------
        ValueError
            If it is longer than `most` bytes.
        OSError
            If it cannot be read.
        """
        return self._get(name, most)[0]

    def _get(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        """Bytes and tag of an object; None for both where there is none."""
        with errors_of_store(f"{self.path}/{name}", "cannot be read"):
            try:
                response = self._store.get(name)
            except FileNotFoundError:
                return None, None
            metadata = response.meta  # before the bytes: some versions of obstore lose it with them
            check_length(f"{self.path}/{name}", metadata["size"], most)
            return bytes(response.bytes()), metadata["e_tag"]

    def replace(self, name: str, text: str) -> None:
        """Write an object if it is still the one that this process saw last.

        Parameters
        ----------
        name : str
            Key below the prefix.
        text : str
            New contents.

        Raises
        ------
        RuntimeError
            If another process has written the object meanwhile.
        OSError
            If it cannot be written.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if name not in self._tags:
            self.read(name)
        tag = self._tags[name]
        mode: Any = "create" if tag is None else {"e_tag": tag}
        with errors_of_store(f"{self.path}/{name}", "cannot be written"):
            try:
                self._tags[name] = self._store.put(name, text.encode(), mode=mode)["e_tag"]
            except (AlreadyExistsError, PreconditionError) as error:
                # A write whose response was lost is retried, and the retry then finds the object of the first attempt.
                response = self._store.get(name)
                if bytes(response.bytes()) != text.encode():
                    raise RuntimeError(f"{self.path}: another process is working on this run") from error
                self._tags[name] = response.meta["e_tag"]

    def take(self, name: str) -> bool:
        """Delete an object.

        Parameters
        ----------
        name : str
            Key below the prefix.

        Returns
        -------
        bool
            Whether there was one.

        Raises
        ------
        OSError
            If it cannot be deleted.
        """
        if self.read(name) is None:
            return False
        with errors_of_store(f"{self.path}/{name}", "cannot be removed"):
            self._store.delete(name)
        return True

    def target(self, name: str) -> Any:
        """The zarr store of a tree.

        Parameters
        ----------
        name : str
            Key of the tree below the prefix.

        Returns
        -------
        zarr.storage.ObjectStore
            What zarr opens.
        """
        return zarr_target(f"{self.path}/{name}")

    def holds(self, name: str) -> bool:
        """Whether this process has published a tree.

        Trees of other processes may be incomplete here; they are written again, with the same bytes.

        Parameters
        ----------
        name : str
            Key of the tree below the prefix.

        Returns
        -------
        bool
            False for trees of other processes.
        """
        return name in self._published

    def writing(self, name: str) -> AbstractContextManager[None]:
        """Let errors of the enclosed lines name the URL.

        Parameters
        ----------
        name : str
            What they write.

        Returns
        -------
        context manager
            Turns errors of the store into `OSError`.
        """
        return errors_of_store(f"{self.path}/{name}", "cannot be written")

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Write a tree, one object after the other; the marker that names it must be written afterwards.

        Parameters
        ----------
        name : str
            Key of the tree below the prefix.
        write : callable
            Called with the zarr store of the tree.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        with self.writing(name):
            write(self.target(name))
        self._published.add(name)

    def children(self, name: str) -> list[str]:
        """Names of the prefixes one level below another one.

        Parameters
        ----------
        name : str
            Prefix; empty for the top.

        Returns
        -------
        list of str
            Sorted names.

        Raises
        ------
        OSError
            If the store cannot be listed.
        """
        with errors_of_store(f"{self.path}/{name}", "cannot be listed"):
            prefixes = self._store.list_with_delimiter(f"{name}/" if name else None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rsplit("/", 1)[-1] for prefix in prefixes)

    def keep(self, name: str) -> None:
        """Do nothing with any `name`: objects are durable once they are written."""

    def entries(self) -> list[str]:
        """Sorted names of the objects and prefixes at the top."""
        with errors_of_store(self.path, "cannot be listed"):
            objects = self._store.list_with_delimiter(None)["objects"]
        return sorted([*(entry["path"] for entry in objects), *self.children("")])

    def names(self) -> list[str]:
        """Keys of all objects below the prefix, at any depth."""
        with errors_of_store(self.path, "cannot be listed"):
            return [entry["path"] for batch in self._store.list() for entry in batch]

    def remove(self, name: str, pattern: re.Pattern[str] | None = None) -> None:
        """Delete the objects of a tree.

        Parameters
        ----------
        name : str
            Key of the tree below the prefix; empty for everything.
        pattern : re.Pattern or None
            Matches the keys, relative to the tree, that may be deleted. By default all.

        Raises
        ------
        OSError
            If the store cannot be listed, or an object not be deleted.
        """
        prefix = f"{name}/" if name else ""
        with errors_of_store(f"{self.path}/{name}", "cannot be removed"):
            for batch in self._store.list(prefix or None):
                keys = [entry["path"] for entry in batch]
                keys = [key for key in keys if pattern is None or pattern.fullmatch(key[len(prefix) :])]
                if keys:
                    self._store.delete(keys)
        self._published = {tree for tree in self._published if not f"{tree}/".startswith(prefix)}
