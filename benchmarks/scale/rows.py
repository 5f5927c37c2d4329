"""Rows for large fits, from CIFAR-10: patches of its images, or the images with mirrored and shifted copies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray

from benchmarks.images import photograph_patches, prepare

PATCH = 8
# Rows that are made at once.
_PART = 50_000
# Pixels by which copies of an image are shifted: edges that come in repeat the last line.
_SHIFTS = ((0, 0), (0, 2), (2, 0), (-2, 0), (0, -2))


def make(kind: str, n_rows: int, folder: str, source: str | None) -> str:
    """Write rows to a store, unless it is there already.

    Parameters
    ----------
    kind : {"patches", "images"}
        Patches of 8 x 8 x 3 bytes, or images of 32 x 32 x 3.
    n_rows : int
        N.
    folder : str
        Where the store is made.
    source : str or None
        Folder with the archives of CIFAR-10; None for patches of the photographs in scikit-image.

    Returns
    -------
    str
        Path of the Zarr array (N, D), uint8.
    """
    path = f"{folder}/{kind}-{n_rows}.zarr"
    if Path(path).exists():
        return path
    images = _images(source)
    made = _patches(images, n_rows) if kind == "patches" else _copies(images, n_rows)
    first = next(made)
    stored = zarr.create_array(
        f"{path}.part", shape=(n_rows, first.shape[1]), dtype="uint8", chunks=(2**21 // first.shape[1], first.shape[1]),
        shards=None, compressors=None,
    )  # fmt: skip
    start = 0
    for part in (first, *made):
        stored[start : start + len(part)] = part
        start += len(part)
    Path(f"{path}.part").rename(path)
    return path


def held_out(kind: str, n_rows: int, source: str | None) -> NDArray[np.uint8]:
    """Rows of images that `make` has not used.

    Parameters
    ----------
    kind, source
        As in `make`.
    n_rows : int
        How many, at most.

    Returns
    -------
    (n, D) uint8 array
    """
    images = _images(source, test=True)
    if kind == "patches":
        return np.concatenate(list(_patches(images, n_rows)))
    return images[:n_rows].reshape(min(n_rows, len(images)), -1)


def _images(source: str | None, test: bool = False) -> NDArray[np.uint8]:
    if source is None:
        pictures = photograph_patches(6_000)
        return pictures[5_000:] if test else pictures[:5_000]
    with tempfile.TemporaryDirectory() as folder:
        stores = prepare(folder, source)
        images: NDArray[np.uint8] = zarr.open_array(stores.test if test else stores.train, mode="r")[:]
    return images


def _patches(images: NDArray[np.uint8], n_rows: int) -> Iterator[NDArray[np.uint8]]:
    rng, positions = np.random.default_rng(0), images.shape[1] - PATCH + 1
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
    for start in range(0, n_rows, _PART):
        n = min(_PART, n_rows - start)
        chosen = windows[rng.integers(0, len(images), n), *rng.integers(0, positions, (2, n))]
        yield chosen.transpose(0, 2, 3, 1).reshape(n, -1)


def _copies(images: NDArray[np.uint8], n_rows: int) -> Iterator[NDArray[np.uint8]]:
    if n_rows > 2 * len(_SHIFTS) * len(images):
        raise ValueError(f"--rows {n_rows}: expected at most {2 * len(_SHIFTS) * len(images)}")
    left = n_rows
    for down, right in _SHIFTS:
        rows, columns = (np.clip(np.arange(32) + by, 0, 31) for by in (down, right))
        for mirror in (False, True):
            copied = images[:, rows][:, :, columns[::-1] if mirror else columns]
            for start in range(0, min(left, len(images)), _PART):
                part = copied[start : start + min(_PART, left)]
                left -= len(part)
                yield part.reshape(len(part), -1)
            if not left:
                return
