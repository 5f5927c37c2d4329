"""Versions in work, on their way between the processes of a run. May import: numpy, store."""

from __future__ import annotations

import io
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.addresses import version_folder
from vmfa_dask.store.places import FolderPlace, place_at
from vmfa_dask.store.versions import Arrays, Versions, ZarrStorage

_SPARES = "spares-"
_KERNEL = Path("/proc/sys/kernel/random/boot_id")


def exchange_at(path: str) -> ExchangeFolder | ZarrStorage:
    """Versions in work in a folder, or under the URL of an object store."""
    return ZarrStorage(place_at(path)) if "://" in path else ExchangeFolder(path)


def running_kernel() -> str | None:
    """What processes that share a page cache have in common, and no others; None where the system does not tell."""
    try:
        return _KERNEL.read_text().strip()
    except OSError:
        return None


class ExchangeFolder(Versions):
    """`.npy` files that readers map into memory.

    They are as large as the model, in every pass: as Zarr arrays with checksums, writing and reading them took 0.5 s of
    a pass of 2 s (CIFAR-10, C = 800, H = 5, two processes). What was read stays as it is while its version is there.

    Between processes of one machine the files of discarded versions serve the next ones (`reuse_files`): fresh ones
    took 44 ms of a pass of 0.8 s there, the same ones 5 ms, because their pages are there.

    Parameters
    ----------
    folder : path that all processes of the run see
    """

    def __init__(self, folder: str) -> None:
        super().__init__(FolderPlace(folder, lasting=False))
        self._spares = os.path.join(self.place.path, f"{_SPARES}{running_kernel()}")
        self._end_reuse_of_others()

    @property
    def maps_memory(self) -> bool:
        """While all processes run on one machine: files that are written again lie in its page cache."""
        return os.path.isdir(self._spares)

    def reuse_files(self) -> None:
        """Let discarded files be written again, until a process of another machine opens the folder.

        For folders that processes of one machine alone have opened so far: a network file system may show to others
        what a file held before.
        """
        if running_kernel() is not None:
            os.makedirs(self._spares, exist_ok=True)

    def _end_reuse_of_others(self) -> None:
        """From now on no file is written twice: what this process reads it may read from a cache of its own."""
        for name in self.place.children(""):
            path = self.place.target(name)
            if name.startswith(_SPARES) and path != self._spares:
                with suppress(FileNotFoundError):  # another one was faster
                    gone = f"{self.place.path}/gone-{uuid.uuid4().hex}"
                    os.rename(path, gone)
                    shutil.rmtree(gone, ignore_errors=True)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; its files become spare ones, in place of those of its kind that nothing has used."""
        for name in self._spares_of(kind):
            shutil.rmtree(os.path.join(self._spares, name), ignore_errors=True)
        if self.maps_memory:
            for block in self.place.children(version_folder(kind, version)):
                with suppress(OSError):  # reuse has just ended: removed below
                    spare = os.path.join(self._spares, f"{kind}.{uuid.uuid4().hex}")
                    os.rename(self.place.target(f"{version_folder(kind, version)}/{block}"), spare)
        super().discard(kind, version)

    def _spares_of(self, kind: str) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._spares) if name.startswith(f"{kind}."))
        return []

    def _write(self, kind: str, target: Any, arrays: Arrays) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not self._take_spare(kind, target):
            os.makedirs(target)
        for name in set(os.listdir(target)) - {f"{name}.npy" for name in arrays}:
            os.remove(os.path.join(target, name))
        for name, array in arrays.items():
            _save(os.path.join(target, f"{name}.npy"), array)

    def _take_spare(self, kind: str, target: str) -> bool:
        """Move a spare folder to `target`; whether there was one. Nobody else has it then."""
        for name in self._spares_of(kind):
            with suppress(FileNotFoundError):  # another process was faster
                os.rename(os.path.join(self._spares, name), target)
                return True
        return False

    def _read(self, name: str) -> Arrays:
        path = self.place.target(name)
        if not os.path.exists(path):
            raise KeyError(path)
        files = {name.removesuffix(".npy"): os.path.join(path, name) for name in sorted(os.listdir(path))}
        # Plain arrays, not `memmap`: kernels are compiled for one kind of array.
        return {n: np.load(f, mmap_mode="r", allow_pickle=False).view(np.ndarray) for n, f in files.items()}


def _save(path: str, array: np.ndarray) -> None:
    """Write an array over a file of its size, or in place of another one.

    A file is never cut: who has mapped a part that goes away dies of it.
    """
    array, header = np.asarray(array, order="C"), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    fits = os.path.exists(path) and os.path.getsize(path) == header.tell() + array.nbytes
    if not fits:
        with suppress(FileNotFoundError):
            os.remove(path)
    with open(path, "r+b" if fits else "wb") as file:
        file.write(header.getvalue())
        file.write(array.data)
