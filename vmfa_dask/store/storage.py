"""Versions of a run as Zarr groups, for drivers and workers in different processes. May import: values, zarr."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import zarr
from numpy.typing import NDArray

from vmfa_dask.store.arrays import read_array, write_array


class ZarrStorage:
    """Named arrays under ``kind/version/block`` of a folder that every process of the run can see.

    Parameters
    ----------
    folder : local or shared folder; created when the first version is written
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)

    def _path(self, kind: str, version: int, block: int) -> str:
        return os.path.join(self.folder, kind, f"{version:06d}", f"{block:05d}")

    def write(self, kind: str, version: int, block: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a block; it appears whole, by a rename, and a second write of the same block changes nothing."""
        path = self._path(kind, version, block)
        if os.path.exists(path):
            return
        partial = f"{path}.{os.getpid()}.{id(arrays):x}.partial"
        group = zarr.open_group(partial, mode="w")
        for name, array in arrays.items():
            write_array(group, name, array)
        try:
            os.rename(partial, path)
        except OSError:  # another run of the same task was faster; it wrote the same bytes
            if not os.path.exists(path):
                raise
            shutil.rmtree(partial, ignore_errors=True)

    def read(self, kind: str, version: int, block: int) -> Mapping[str, NDArray[Any]]:
        """Read a block.

        Raises
        ------
        KeyError
            When it was never written.
        """
        path = self._path(kind, version, block)
        if not os.path.exists(path):
            raise KeyError(path)
        group = zarr.open_group(path, mode="r")
        return {name: read_array(group, name, path) for name in group.array_keys()}

    def keep_only(self, needed: Iterable[tuple[str, int]]) -> None:
        """Remove every version but the (kind, version) pairs that are needed."""
        wanted = {(kind, f"{version:06d}") for kind, version in needed}
        for kind in {kind for kind, _ in wanted}:
            folder = os.path.join(self.folder, kind)
            for version in os.listdir(folder) if os.path.isdir(folder) else ():
                if (kind, version) not in wanted:
                    shutil.rmtree(os.path.join(folder, version), ignore_errors=True)

    def discard(self, kind: str, version: int) -> None:
        """Remove a version."""
        shutil.rmtree(os.path.join(self.folder, kind, f"{version:06d}"), ignore_errors=True)
