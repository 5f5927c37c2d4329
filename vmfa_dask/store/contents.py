"""What the store of an array lists: size and stamp of each stored object. No chunk is read. May import: zarr, store."""

from __future__ import annotations

import os
import re
import zipfile
from typing import Any

import zarr
from zarr.storage import LocalStore, ObjectStore, ZipStore

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.regular import status_of

# Size of a stored object in bytes, and what changes when it is written again: its time, tag or checksum.
Stamp = tuple[int, str]
# Keys of chunks in the notations of Zarr 2 and 3. Metadata and files of other programs do not match.
_CHUNK_KEY = re.compile(r"(c[./])?\d+([./]\d+)*")


def stamps_of(array: zarr.Array[Any]) -> dict[str, Stamp] | None:
    """Stamps of the stored chunks of an array.

    Parameters
    ----------
    array : zarr.Array
        The array, opened for reading.

    Returns
    -------
    dict of str to (int, str), or None
        Size and stamp by key relative to the array, sorted by key. None for stores other than folders, zip archives and
        object stores: their lists cannot be relied on.

    Raises
    ------
    OSError
        If the store cannot be listed.
    """
    if isinstance(array.store, LocalStore):
        stamps = _list_folder(os.path.join(str(array.store.root), array.path))
    elif isinstance(array.store, ZipStore):
        stamps = _list_archive(str(array.store.path), array.path)
    elif isinstance(array.store, ObjectStore):
        stamps = _list_object_store(array.store.store, array.path)
    else:
        return None
    return {key: stamp for key, stamp in sorted(stamps.items()) if _CHUNK_KEY.fullmatch(key)}


class Sizes:
    """Sizes of single objects of an array, where they cost next to nothing to find: in folders and zip archives.

    Parameters
    ----------
    array : zarr.Array
        The array, opened for reading.
    """

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array
        self._members: dict[str, Stamp] | None = None

    def size(self, key: str) -> int | None:
        """Size of one object.

        Parameters
        ----------
        key : str
            Relative to the array.

        Returns
        -------
        int or None
            In bytes; None if it is not stored, or the store does not tell.

        Raises
        ------
        ChunkDamaged
            If it is a pipe, a device, a folder or a link to nothing.
        """
        store = self._array.store
        if isinstance(store, LocalStore):
            status = status_of(os.path.join(str(store.root), self._array.path, key))
            if status.irregular is not None:
                raise ChunkDamaged(f"chunk {key} is {status.irregular}, expected a regular file")
            return status.n_bytes
        if not isinstance(store, ZipStore):
            return None
        if self._members is None:
            self._members = _list_archive(str(store.path), self._array.path)
        return self._members[key][0] if key in self._members else None


def _list_folder(root: str) -> dict[str, Stamp]:
    """Sizes and times of the files in a folder and below; links to nothing are left out."""
    stamps: dict[str, Stamp] = {}
    folders, visited = [""], set[tuple[int, int]]()
    while folders:
        folder = folders.pop()
        status = os.stat(os.path.join(root, folder))
        if (status.st_dev, status.st_ino) in visited:  # a link to a folder above
            continue
        visited.add((status.st_dev, status.st_ino))
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                key = f"{folder}{entry.name}"
                try:
                    if entry.is_dir():
                        folders.append(f"{key}/")
                        continue
                    status = entry.stat()
                except OSError:
                    continue
                stamps[key] = status.st_size, str(status.st_mtime_ns)
    return stamps


def _list_archive(archive: str, path: str) -> dict[str, Stamp]:
    """Sizes and checksums that an archive lists for its members."""
    prefix = f"{path}/" if path else ""
    with zipfile.ZipFile(archive) as members:
        return {
            member.filename.removeprefix(prefix): (member.file_size, f"{member.CRC:08x}")
            for member in members.infolist()
            if member.filename.startswith(prefix) and not member.is_dir()
        }


def _list_object_store(store: Any, path: str) -> dict[str, Stamp]:
    """Sizes and tags of the objects; their times where a store has no tags."""
    prefix = f"{path}/" if path else ""
    return {
        str(entry["path"]).removeprefix(prefix): (int(entry["size"]), str(entry["e_tag"] or entry["last_modified"]))
        for batch in store.list(prefix or None)
        for entry in batch
    }
