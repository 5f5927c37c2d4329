"""Where files of a run and stores of rows lie: a folder, or a prefix in an object store.

A folder is written by renames; an object store, which has none, by whole objects and conditional writes of the files
that mark what is complete. May import: zarr, obstore (for URLs of object stores).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

# Schemes that `obstore` opens; zarr hands any other one to `fsspec`.
_OBJECT_STORES = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss")
# A store that throttles or drops connections is asked again, ever more slowly, for this long.
_PATIENCE = timedelta(seconds=60)
_MOST_RETRIES = 12


def locate(path: str | os.PathLike[str]) -> str:
    """The path as any process finds it: URLs as they are, without a slash at the end; others absolute."""
    path = os.fspath(path)
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def zarr_target(path: str) -> Any:
    """What zarr opens for a path or URL: an object store with retries, or the path itself."""
    if path.split("://")[0] not in _OBJECT_STORES:
        return path
    from zarr.storage import ObjectStore

    return ObjectStore(_open_object_store(path))


def place_at(path: str) -> Place:
    """The place of a path or URL.

    Raises
    ------
    ValueError
        When it is the URL of something that is no object store.
    """
    if "://" not in path:
        return FolderPlace(path)
    if path.split("://")[0] not in _OBJECT_STORES:
        raise ValueError(f"{path}: expected a folder or the URL of an object store ({', '.join(_OBJECT_STORES)})")
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

    def replace(self, name: str, text: str) -> None:
        """Write a file whole, in place of the one that was there."""
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

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Write a tree by ``write(target)``; it becomes visible whole, or at least before what marks it is written."""
        ...

    def children(self, name: str) -> list[str]:
        """Names of the trees just below one; none where it does not exist."""
        ...

    def remove(self, name: str) -> None:
        """Remove a tree; nothing happens when it is not there."""
        ...


class FolderPlace:
    """A local or shared folder.

    Parameters
    ----------
    path : the folder; made when something is written
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def probe(self) -> None:
        """Write a file and remove it."""
        probe = self.target(f".probe-{os.getpid()}")
        try:
            os.makedirs(self.path, exist_ok=True)
            with open(probe, "w") as file:
                file.write("ok")
            os.remove(probe)
        except OSError as error:
            raise _named(error, f"the folder cannot be written: {error.strerror}", self.path) from error

    def free_bytes(self) -> int | None:
        """Free bytes of the disk."""
        return shutil.disk_usage(self.path).free

    def read(self, name: str) -> str | None:
        """Text of a file."""
        try:
            with open(self.target(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def replace(self, name: str, text: str) -> None:
        """By a rename, once the text is on the disk."""
        path = self.target(name)
        partial = f"{path}.partial"
        try:
            with open(partial, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError as error:
            _remove_file(partial)
            raise _named(error, f"cannot be written: {error.strerror}", path) from error

    def take(self, name: str) -> bool:
        """Whether the file was there."""
        return _remove_file(self.target(name))

    def target(self, name: str) -> str:
        """The path."""
        return os.path.join(self.path, *name.split("/"))

    def holds(self, name: str) -> bool:
        """Trees appear by a rename: what is there is whole."""
        return os.path.exists(self.target(name))

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """By a rename.

        Raises
        ------
        OSError
            Naming the path, for example when the disk is full; nothing of the tree is left then.
        """
        path = self.target(name)
        partial = f"{path}.{uuid.uuid4().hex[:8]}.partial"
        try:
            write(partial)
            os.rename(partial, path)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if not os.path.exists(path):  # else another run of the same task was faster; it wrote the same bytes
                raise _named(error, f"cannot be written: {error.strerror}", path) from error

    def children(self, name: str) -> list[str]:
        """Names of the folders in one."""
        folder = self.target(name)
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if os.path.isdir(folder) else []

    def remove(self, name: str) -> None:
        """Remove a folder."""
        shutil.rmtree(self.target(name), ignore_errors=True)


class ObjectPlace:
    """A prefix in an object store.

    Of two drivers that work on one run, the first to move a marker goes on: markers are replaced only where they are
    what this process has seen last.

    Parameters
    ----------
    path : URL; credentials, region and endpoint come from the environment, as the store's own tools take them
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = _open_object_store(path)
        self._seen: dict[str, str | None] = {}
        self._published: set[str] = set()

    def probe(self) -> None:
        """Write an object and remove it."""
        name = f".probe-{uuid.uuid4().hex[:8]}"
        with _errors_of_store(self.path, "cannot be written"):
            self._store.put(name, b"ok")
            self._store.delete(name)

    def free_bytes(self) -> int | None:
        """Nobody knows."""
        return None

    def read(self, name: str) -> str | None:
        """Text of an object; its version is remembered."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be read"):
            try:
                found = self._store.get(name)
            except FileNotFoundError:
                self._seen[name] = None
                return None
            self._seen[name] = found.meta["e_tag"]
            return bytes(found.bytes()).decode()

    def replace(self, name: str, text: str) -> None:
        """By a conditional write.

        Raises
        ------
        RuntimeError
            When the object is no longer what this process has seen last.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if name not in self._seen:
            self.read(name)
        tag = self._seen[name]
        mode: Any = "create" if tag is None else {"e_tag": tag}
        with _errors_of_store(f"{self.path}/{name}", "cannot be written"):
            try:
                self._seen[name] = self._store.put(name, text.encode(), mode=mode)["e_tag"]
            except (AlreadyExistsError, PreconditionError) as error:
                # A write whose answer was lost is tried again, and then meets itself.
                found = self._store.get(name)
                if bytes(found.bytes()) != text.encode():
                    raise RuntimeError(f"{self.path}: another process is working on this run") from error
                self._seen[name] = found.meta["e_tag"]

    def take(self, name: str) -> bool:
        """Whether the object was there."""
        if self.read(name) is None:
            return False
        with _errors_of_store(f"{self.path}/{name}", "cannot be removed"):
            self._store.delete(name)
        return True

    def target(self, name: str) -> Any:
        """A Zarr store of this prefix."""
        return zarr_target(f"{self.path}/{name}")

    def holds(self, name: str) -> bool:
        """Only what this process wrote is known to be whole; other things are written again, in the same bytes."""
        return name in self._published

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Object by object; what marks the tree as complete must be written afterwards."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be written"):
            write(self.target(name))
        self._published.add(name)

    def children(self, name: str) -> list[str]:
        """Names of the prefixes in one."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be listed"):
            found = self._store.list_with_delimiter(f"{name}/" if name else None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rsplit("/", 1)[-1] for prefix in found)

    def remove(self, name: str) -> None:
        """Remove all objects of a prefix."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be removed"):
            for batch in self._store.list(f"{name}/"):
                self._store.delete([entry["path"] for entry in batch])
        self._published = {known for known in self._published if not f"{known}/".startswith(f"{name}/")}


def _open_object_store(url: str) -> Any:
    """An object store that is asked again when it throttles or drops a request, within bounds."""
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ImportError(f"{url}: object stores need the extra 'cloud': pip install 'vmfa-dask[cloud]'") from error
    retries: Any = {"max_retries": _MOST_RETRIES, "retry_timeout": _PATIENCE}
    return from_url(url, retry_config=retries)


@contextmanager
def _errors_of_store(url: str, failure: str) -> Iterator[None]:
    """Turn errors of an object store into `OSError` with the URL and what could not be done."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        kind = type(error) if isinstance(error, OSError) else OSError
        raise kind(f"{url} {failure}: {str(error).splitlines()[0]}") from error


def _named(error: OSError, message: str, path: str) -> OSError:
    """The same kind of error, with the path that it is about."""
    return type(error)(error.errno, message, path)


def _remove_file(path: str) -> bool:
    try:
        os.remove(path)
    except FileNotFoundError:
        return False
    return True
