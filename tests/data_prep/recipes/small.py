"""Data sets of a few images in the formats of the large ones."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import scipy.io
import zarr

from vmfa_dask.data_prep.recipes import paper


def expect(monkeypatch: pytest.MonkeyPatch, name: str, train: int, test: int) -> None:
    """Have the paper's table say these numbers."""
    shape = paper.DATA_SETS[name].shape
    monkeypatch.setitem(paper.DATA_SETS, name, paper.Expected(train, test, shape))


def random_bytes(seed: int, *shape: int, below: int = 256) -> npt.NDArray[np.uint8]:
    """Return random values."""
    return np.random.default_rng(seed).integers(0, below, shape, dtype=np.uint8)


def write_records(path: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> Path:
    """Write CIFAR-10's binary version of images (N, 32, 32, 3)."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    path.write_bytes(np.hstack([labels[:, None], planes]).astype(np.uint8).tobytes())
    return path


def write_idx(path: Path, rows: npt.NDArray[np.uint8]) -> Path:
    """Write an idx file, compressed where the name says so."""
    content = bytes((0, 0, 8, rows.ndim)) + struct.pack(f">{rows.ndim}I", *rows.shape) + rows.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_mat(path: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> Path:
    """Write images (N, 32, 32, 3) and labels of 1 to 10 as SVHN does."""
    scipy.io.savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, None]}, do_compression=True)
    return path


def stored(store: Path, name: str) -> npt.NDArray[np.generic]:
    """Return all rows of an array of a group."""
    return np.asarray(zarr.open_array(store / name, mode="r")[:])
