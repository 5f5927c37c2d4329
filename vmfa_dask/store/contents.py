"""What the store of an array holds, without reading it: size and stamp of each object. May import: zarr, store."""

from __future__ import annotations

import os
import re
import zipfile
from typing import Any

import zarr
from zarr.storage import LocalStore, ObjectStore, ZipStore

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.regular import irregular, size_of

# Size of a stored object, and what changes when it is written again: time, tag or checksum.
Stamp = tuple[int, str]
# Keys of chunks in the notations of Zarr 2 and 3. Metadata and what others put there are no chunks.
_CHUNK = re.compile(r"(c[./])?\d+([./]\d+)*")


def stamps_of(array: zarr.Array[Any]) -> dict[str, Stamp] | None:
    """Stamps of the chunks of an array by key; None where the store does not tell."""
    if isinstance(array.store, LocalStore):
        found = _of_folder(os.path.join(str(array.store.root), array.path))
    elif isinstance(array.store, ZipStore):
        found = _of_archive(str(array.store.path), array.path)
    elif isinstance(array.store, ObjectStore):
        found = _of_object_store(array.store.store, array.path)
    else:
        return None
    return {key: stamp for key, stamp in sorted(found.items()) if _CHUNK.fullmatch(key)}


class Sizes:
    """Sizes of single objects of an array, where asking for them costs next to nothing: in folders and archives.

    Parameters
    ----------
    array : the array
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array
        self._members: dict[str, Stamp] | None = None

    def size(self, key: str) -> int | None:
        """Bytes of an object; None where it is not there, or the store does not tell.

        Raises
        ------
        ChunkDamaged
            When it is a pipe, a device or a link to nothing.
        """
        store = self._array.store
        if isinstance(store, LocalStore):
            path = os.path.join(str(store.root), self._array.path, key)
            kind = irregular(path)
            if kind is not None:
                raise ChunkDamaged(f"chunk {key} is {kind}, expected a regular file")
            return size_of(path)
        if not isinstance(store, ZipStore):
            return None
        if self._members is None:
            self._members = _of_archive(str(store.path), self._array.path)
        return self._members[key][0] if key in self._members else None


def _of_folder(root: str) -> dict[str, Stamp]:
    """Sizes and times of the files in a folder and below; what is a link to nothing is left out."""
    found: dict[str, Stamp] = {}
    folders, seen = [""], set[tuple[int, int]]()
    while folders:
        below = folders.pop()
        here = os.stat(os.path.join(root, below))
        if (here.st_dev, here.st_ino) in seen:  # a link to a folder above
            continue
        seen.add((here.st_dev, here.st_ino))
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                key = f"{below}{entry.name}"
                try:
                    if entry.is_dir():
                        folders.append(f"{key}/")
                        continue
                    about = entry.stat()
                except OSError:
                    continue
                found[key] = about.st_size, str(about.st_mtime_ns)
    return found


def _of_archive(archive: str, path: str) -> dict[str, Stamp]:
    """Sizes and checksums that an archive lists of its members."""
    prefix = f"{path}/" if path else ""
    with zipfile.ZipFile(archive) as members:
        return {
            member.filename.removeprefix(prefix): (member.file_size, f"{member.CRC:08x}")
            for member in members.infolist()
            if member.filename.startswith(prefix) and not member.is_dir()
        }


def _of_object_store(store: Any, path: str) -> dict[str, Stamp]:
    """Sizes and tags of the objects; their times where a store has no tags."""
    prefix = f"{path}/" if path else ""
    return {
        str(entry["path"]).removeprefix(prefix): (int(entry["size"]), str(entry["e_tag"] or entry["last_modified"]))
        for batch in store.list(prefix or None)
        for entry in batch
    }
