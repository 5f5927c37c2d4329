"""Versions of a run in a folder that every process of the run can see: written once, and whole, by a rename.

`ExchangeFolder` holds versions in work, `ZarrStorage` what is to last. May import: numpy, zarr.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.store.arrays import open_group, read_array, write_array

Arrays = Mapping[str, NDArray[Any]]
_NAMES = "arrays"


class _VersionFolder:
    """Named arrays under ``kind/version/block``; how a block is stored is up to the classes below.

    Parameters
    ----------
    folder : local or shared folder; created when the first version is written
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)

    def _version(self, kind: str, version: int) -> str:
        return os.path.join(self.folder, kind, f"{version:06d}")

    def _path(self, kind: str, version: int, block: int) -> str:
        return os.path.join(self._version(kind, version), f"{block:05d}")

    def _write(self, path: str, arrays: Arrays) -> None:
        raise NotImplementedError

    def _read(self, path: str) -> Arrays:
        raise NotImplementedError

    def write(self, kind: str, version: int, block: int, arrays: Arrays) -> None:
        """Write a block; it appears whole, and a second write of the same block changes nothing."""
        path = self._path(kind, version, block)
        if os.path.exists(path):
            return
        partial = f"{path}.{uuid.uuid4().hex[:8]}.partial"
        self._write(partial, arrays)
        try:
            os.rename(partial, path)
        except OSError:  # another run of the same task was faster; it wrote the same bytes
            if not os.path.exists(path):
                raise
            shutil.rmtree(partial, ignore_errors=True)

    def read(self, kind: str, version: int, block: int) -> Arrays:
        """A block as read-only arrays.

        Raises
        ------
        KeyError
            When it was never written.
        """
        path = self._path(kind, version, block)
        if not os.path.exists(path):
            raise KeyError(path)
        return self._read(path)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; nothing happens when it is not there."""
        shutil.rmtree(self._version(kind, version), ignore_errors=True)


class ExchangeFolder(_VersionFolder):
    """Versions on their way between processes: `.npy` files that readers map into memory.

    They are as large as the model, in every pass: as Zarr arrays with checksums, writing and reading them took 0.5 s of
    a pass of 2 s (CIFAR-10, C = 800, H = 5, two processes). What was read stays valid when its version is discarded.
    """

    def _write(self, path: str, arrays: Arrays) -> None:
        os.makedirs(path)
        for name, array in arrays.items():
            np.save(os.path.join(path, f"{name}.npy"), array, allow_pickle=False)

    def _read(self, path: str) -> Arrays:
        files = {name.removesuffix(".npy"): os.path.join(path, name) for name in sorted(os.listdir(path))}
        # Plain arrays, not `memmap`: kernels are compiled for one kind of array.
        return {n: np.load(f, mmap_mode="r", allow_pickle=False).view(np.ndarray) for n, f in files.items()}


class ZarrStorage(_VersionFolder):
    """Versions that are to last: Zarr groups with checksums; what is damaged or incomplete is refused."""

    def _write(self, path: str, arrays: Arrays) -> None:
        group = zarr.open_group(path, mode="w")
        group.attrs[_NAMES] = sorted(arrays)
        for name, array in arrays.items():
            write_array(group, name, array)

    def _read(self, path: str) -> Arrays:
        group = open_group(path)
        # Runs of the first days of format 1 do not say what belongs to them.
        names: Any = group.attrs.get(_NAMES) or sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        return {name: read_array(group, name, path) for name in names}

    def keep_only(self, needed: Iterable[tuple[str, int]]) -> None:
        """Remove every version but the (kind, version) pairs that are needed."""
        wanted = {(kind, f"{version:06d}") for kind, version in needed}
        for kind in {kind for kind, _ in wanted}:
            folder = os.path.join(self.folder, kind)
            for version in os.listdir(folder) if os.path.isdir(folder) else ():
                if (kind, version) not in wanted:
                    self.discard(kind, int(version))
