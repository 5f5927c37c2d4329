"""Versions that travel between the processes of a run and need not survive it. May import: numpy, store."""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from vmfa_dask.addresses import PACKED_ARRAYS, Address, version_folder
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.places import place_at
from vmfa_dask.store.version_store import Arrays, Versions, ZarrStorage

_SPARES = "spares-"
_KERNEL = Path("/proc/sys/kernel/random/boot_id")


def exchange_at(path: str) -> ExchangeFolder | ZarrStorage:
    """Open the storage through which the processes of a run exchange versions.

    Parameters
    ----------
    path : str
        Folder, or URL of an object store.

    Returns
    -------
    ExchangeFolder or ZarrStorage
        Mapped files in a folder, Zarr arrays in an object store.

    Raises
    ------
    ValueError
        If it is a URL, but not of an object store.
    """
    return ZarrStorage(place_at(path)) if "://" in path else ExchangeFolder(path)


def running_kernel() -> str | None:
    """Identify the running kernel: processes with the same answer share a page cache.

    Returns
    -------
    str or None
        Identity of this boot of the machine; None where the system has none.
    """
    try:
        return _KERNEL.read_text().strip()
    except OSError:
        return None


class ExchangeFolder(Versions):
    """Versions as `.npy` files that readers map into memory.

    They are as large as the model, in every pass: writing and reading them as Zarr arrays with checksums took 0.5 s of
    a pass of 2 s (CIFAR-10, C = 800, H = 5, two processes). Arrays that were read do not change while their version
    exists.

    Between processes of one machine the files of discarded versions are written again for new ones (`reuse_files`):
    fresh files took 44 ms of a pass of 0.8 s there, reused ones 5 ms, because their pages are already in memory.

    Parameters
    ----------
    folder : str
        Path that all processes of the run can see.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(FolderPlace(folder, lasting=False))
        self._spares = os.path.join(self.place.path, f"{_SPARES}{running_kernel()}")
        self._end_reuse_by_other_machines()

    @property
    def maps_memory(self) -> bool:
        """Whether all processes run on one machine: reused files are in its page cache."""
        return os.path.isdir(self._spares)

    @property
    def shared(self) -> Any:
        """Arrays that all processes map, as `run.storage.SharedArrays`, where all of them run on one machine."""
        return self if self.maps_memory else None

    def holds(self, address: Address) -> bool:
        """Whether something was written.

        Parameters
        ----------
        address : Address
            Where to.

        Returns
        -------
        bool
        """
        return self.place.holds(self.name_of(address))

    def write_part(self, address: Address, length: int, start: int, arrays: Arrays) -> None:
        """Write a range of the first axis; what is not written yet may be read as anything.

        Parameters
        ----------
        address : Address
            Where to.
        length : int
            Length of the first axis of all parts together.
        start : int
            Where this part begins.
        arrays : mapping of str to array
            Arrays of one part.

        Raises
        ------
        OSError
            If there is no room for all parts; the message names the path.
        """
        name = self.name_of(address)
        headers = {n: _header(array.dtype, (length, *array.shape[1:])) for n, array in arrays.items()}
        row_bytes = {n: array[:1].nbytes for n, array in arrays.items()}

        def allocate(target: Any) -> None:
            os.makedirs(target)
            for n, header in headers.items():
                with open(os.path.join(target, f"{n}.npy"), "wb") as file:
                    file.write(header)
                    os.posix_fallocate(file.fileno(), 0, len(header) + length * row_bytes[n])

        if not self.place.holds(name):
            self.place.publish(name, allocate)
        with self.place.writing(name):
            for n, array in arrays.items():
                with open(self.place.target(f"{name}/{n}.npy"), "r+b") as file:
                    file.seek(len(headers[n]) + start * row_bytes[n])
                    file.write(np.asarray(array, order="C").data)

    def map_parts(self, address: Address) -> Arrays:
        """Map what was written in parts.

        Parameters
        ----------
        address : Address
            Where from.

        Returns
        -------
        mapping of str to array
            Not to be written to, although their flags allow it: kernels are compiled for such arrays. (Pages that are
            written to would be copied; those of the files stay as they are.)

        Raises
        ------
        KeyError
            If nothing was written there.
        """
        return self._mapped(self.name_of(address), "c")

    def reuse_files(self) -> None:
        """Let files of discarded versions be written again, until a process of another machine opens the folder.

        Only for folders that no other machine has opened so far: over a network file system, it might still see the
        old contents of a file.
        """
        if running_kernel() is not None:
            os.makedirs(self._spares, exist_ok=True)

    def _end_reuse_by_other_machines(self) -> None:
        """Remove the spare files of other machines: this process may read files from a cache of its own."""
        for name in self.place.children(""):
            path = self.place.target(name)
            if name.startswith(_SPARES) and path != self._spares:
                with suppress(FileNotFoundError):  # another process was faster
                    renamed = f"{self.place.path}/gone-{uuid.uuid4().hex}"
                    os.rename(path, renamed)
                    shutil.rmtree(renamed, ignore_errors=True)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; where files are reused, its files replace the spare ones of its kind.

        Parameters
        ----------
        kind : str
            What the version holds, such as "parameters".
        version : int
            Number of the version.
        """
        for name in self._spares_of(kind):
            shutil.rmtree(os.path.join(self._spares, name), ignore_errors=True)
        # A task that was stopped while it wrote a part may go on at any time, so files of parts serve once.
        if self.maps_memory and kind != PACKED_ARRAYS:
            for block in self.place.children(version_folder(kind, version)):
                with suppress(OSError):  # reuse has just ended; the block is removed below
                    spare = os.path.join(self._spares, f"{kind}.{uuid.uuid4().hex}")
                    os.rename(self.place.target(f"{version_folder(kind, version)}/{block}"), spare)
        super().discard(kind, version)

    def _spares_of(self, kind: str) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._spares) if name.startswith(f"{kind}."))
        return []

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        self._take_folder(kind, target, arrays)
        for name, array in arrays.items():
            array = np.asarray(array, order="C")
            header = _header(array.dtype, array.shape)
            with _opened(os.path.join(target, f"{name}.npy"), len(header) + array.nbytes) as file:
                file.write(header)
                file.write(array.data)

    def _take_folder(self, kind: str, target: Any, names: Iterable[str]) -> None:
        """Make a folder with no other files than those of these names, a spare one if there is one."""
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not self._take_spare(kind, target):
            os.makedirs(target)
        for name in set(os.listdir(target)) - {f"{name}.npy" for name in names}:
            os.remove(os.path.join(target, name))

    def _take_spare(self, kind: str, target: str) -> bool:
        """Move a spare folder to `target`, where only this process uses it; False if there is none."""
        for name in self._spares_of(kind):
            with suppress(FileNotFoundError):  # another process was faster
                os.rename(os.path.join(self._spares, name), target)
                return True
        return False

    def _read(self, name: str) -> Arrays:
        return self._mapped(name, "r")

    def _mapped(self, name: str, mode: Literal["r", "c"]) -> Arrays:
        path = self.place.target(name)
        if not os.path.exists(path):
            raise KeyError(path)
        files = {name.removesuffix(".npy"): os.path.join(path, name) for name in sorted(os.listdir(path))}
        # Views as plain arrays, because kernels are not compiled for `memmap`.
        return {n: np.load(f, mmap_mode=mode, allow_pickle=False).view(np.ndarray) for n, f in files.items()}


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What precedes the numbers of an array in a `.npy` file; their alignment is that of cache lines."""
    header = io.BytesIO()
    values = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, values)
    return header.getvalue()


def _opened(path: str, size: int) -> IO[bytes]:
    """A file to be written over if it has this size, else a new one.

    A file is never truncated: a process that has mapped the part that goes away would be killed by a bus error.
    """
    fits = os.path.exists(path) and os.path.getsize(path) == size
    if not fits:
        with suppress(FileNotFoundError):
            os.remove(path)
    return open(path, "r+b" if fits else "wb")
