"""Versions on their way between the processes of a run: plain `.npy` files that readers map into memory.

They live as long as the run and are as large as the model, in every pass: as Zarr arrays with checksums, writing and
reading them took 0.5 s of a pass of 2 s (CIFAR-10, C = 800, H = 5, two processes). What is to last is kept as Zarr, see
`storage.py`. May import: numpy.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ExchangeFolder:
    """Named arrays under ``kind/version/block`` of a folder that every process of the run can see.

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

    def write(self, kind: str, version: int, block: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a block; it appears whole, by a rename, and a second write of the same block changes nothing."""
        path = self._path(kind, version, block)
        if os.path.exists(path):
            return
        partial = f"{path}.{uuid.uuid4().hex[:8]}.partial"
        os.makedirs(partial)
        for name, array in arrays.items():
            np.save(os.path.join(partial, f"{name}.npy"), array, allow_pickle=False)
        try:
            os.rename(partial, path)
        except OSError:  # another run of the same task was faster; it wrote the same bytes
            if not os.path.exists(path):
                raise
            shutil.rmtree(partial, ignore_errors=True)

    def read(self, kind: str, version: int, block: int) -> Mapping[str, NDArray[Any]]:
        """A block as read-only arrays over the mapped files; they stay valid when the version is discarded.

        Raises
        ------
        KeyError
            When it was never written.
        """
        path = self._path(kind, version, block)
        if not os.path.exists(path):
            raise KeyError(path)
        return {
            name.removesuffix(".npy"): np.load(os.path.join(path, name), mmap_mode="r", allow_pickle=False).view(
                np.ndarray
            )
            for name in sorted(os.listdir(path))
        }

    def discard(self, kind: str, version: int) -> None:
        """Remove a version; nothing happens when it is not there."""
        shutil.rmtree(self._version(kind, version), ignore_errors=True)
