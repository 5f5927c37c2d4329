"""Object stores (S3 and its like): rows are read from them, and runs kept in them.

They have no renames and no locks: files are written as whole objects, and those that mark what is complete by
conditional writes. May import: zarr, obstore, store.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

from vmfa_dask.store.strict import MOST_TEXT, as_text, check_length

# Schemes that `obstore` opens; zarr hands any other one to `fsspec`.
OBJECT_STORES = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss")
# A store that throttles or drops connections is asked again, ever more slowly, for this long.
_PATIENCE = timedelta(seconds=60)
_MOST_RETRIES = 12


def is_object_store(path: str) -> bool:
    """Whether a path is the URL of an object store."""
    return "://" in path and path.split("://")[0] in OBJECT_STORES


def zarr_target(path: str) -> Any:
    """What zarr opens for a path or URL: an object store with retries, or the path itself."""
    if not is_object_store(path):
        return path
    from zarr.storage import ObjectStore

    return ObjectStore(_open_object_store(path))


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
        content, self._seen[name] = self._get(name, MOST_TEXT)
        return None if content is None else as_text(content, f"{self.path}/{name}")

    def fetch(self, name: str, most: int) -> bytes | None:
        """Bytes of an object."""
        return self._get(name, most)[0]

    def _get(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        """Bytes and tag of an object; None where there is none."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be read"):
            try:
                found = self._store.get(name)
            except FileNotFoundError:
                return None, None
            about = found.meta  # first: some versions forget it with the bytes
            check_length(f"{self.path}/{name}", about["size"], most)
            return bytes(found.bytes()), about["e_tag"]

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

    def writing(self, name: str) -> AbstractContextManager[None]:
        """Errors that name the URL."""
        return _errors_of_store(f"{self.path}/{name}", "cannot be written")

    def publish(self, name: str, write: Callable[[Any], None]) -> None:
        """Object by object; what marks the tree as complete must be written afterwards."""
        with self.writing(name):
            write(self.target(name))
        self._published.add(name)

    def children(self, name: str) -> list[str]:
        """Names of the prefixes in one."""
        with _errors_of_store(f"{self.path}/{name}", "cannot be listed"):
            found = self._store.list_with_delimiter(f"{name}/" if name else None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rsplit("/", 1)[-1] for prefix in found)

    def keep(self, name: str) -> None:
        """What is written lasts."""

    def entries(self) -> list[str]:
        """Names of the objects and prefixes at the top."""
        with _errors_of_store(self.path, "cannot be listed"):
            objects = self._store.list_with_delimiter(None)["objects"]
        return sorted([*(entry["path"] for entry in objects), *self.children("")])

    def names(self) -> list[str]:
        """Names of all objects."""
        with _errors_of_store(self.path, "cannot be listed"):
            return [entry["path"] for batch in self._store.list() for entry in batch]

    def remove(self, name: str, known: re.Pattern[str] | None = None) -> None:
        """Remove all objects of a prefix, or of the place where the name is empty."""
        prefix = f"{name}/" if name else ""
        with _errors_of_store(f"{self.path}/{name}", "cannot be removed"):
            for batch in self._store.list(prefix or None):
                found = [entry["path"] for entry in batch]
                found = [path for path in found if known is None or known.fullmatch(path[len(prefix) :])]
                if found:
                    self._store.delete(found)
        self._published = {path for path in self._published if not f"{path}/".startswith(prefix)}


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
