"""EMNIST (Cohen et al., 2017), split *byclass*, as a store: grey images with Gaussian noise.

The four idx files are ``emnist-byclass-{train,test}-{images-idx3,labels-idx1}-ubyte``, with ``.gz`` or without. They
hold each image transposed, which is undone. The noise avoids pixels without variance at the edges; a row's is a
function of `seed`, side and row number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.recipes.files import find_all
from vmfa_dask.data_prep.recipes.idx import IdxTable
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.recipes.noise import standard_normal
from vmfa_dask.data_prep.recipes.paper import DATA_SETS
from vmfa_dask.data_prep.recipes.recipe import Recipe
from vmfa_dask.data_prep.splits import TEST, TRAIN
from vmfa_dask.data_prep.tables import Block, Table

_KINDS = ("images-idx3", "labels-idx1")
_SHAPE = DATA_SETS["emnist"].shape


@dataclass(frozen=True)
class NoisyImages:
    """Upright images plus noise.

    Parameters
    ----------
    images : IdxTable
        Images of shape (N, 28, 28), transposed as in the file.
    scale : float
        Standard deviation of the noise, in grey levels of 0 to 255.
    seed, stream : int
        Of `standard_normal`; each side has a stream of its own.
    """

    images: IdxTable
    scale: float
    seed: int
    stream: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(images, 28, 28, 1)."""
        return (self.images.shape[0], *_SHAPE)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float32."""
        return np.dtype(np.float32)

    def read(self, start: int, stop: int) -> Block:
        """Read images ``start:stop`` in grey levels of 0 to 255 and add their noise, as in `tables.Table.read`."""
        upright = self.images.read(start, stop).transpose(0, 2, 1)[..., None].astype(np.float32)
        if self.scale == 0:
            return upright
        noise = standard_normal(self.seed, self.stream, range(start, stop), int(np.prod(_SHAPE)))
        return upright + (self.scale * noise).astype(np.float32).reshape(upright.shape)


def write(job: Job, *, noise: float = 1.0, seed: int = 0) -> None:
    """Write ``train``, ``test`` (N, 28, 28, 1) float32 and ``train_labels``, ``test_labels`` (N,) uint8.

    Parameters
    ----------
    job : Job
        Its sources hold all four files; `partial` accepts other counts only.
    noise : float
        Standard deviation of the noise, in grey levels of 0 to 255.
    seed : int
        Seed of the noise; at least 0 and below 2**64.

    Raises
    ------
    ValueError
        If an argument is out of range; naming what is missing, damaged or differs from the paper.
    """
    if not 0 <= noise < float("inf"):
        raise ValueError(f"noise must be a finite number of at least 0, got {noise}")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an integer of at least 0 and below 2**64, got {seed}")
    keys = [(side, kind) for side in (TRAIN, TEST) for kind in _KINDS]
    names = [f"emnist-byclass-{side}-{kind}-ubyte" for side, kind in keys]
    paths = find_all(job.name, job.sources, [(name, f"{name}.gz") for name in names])
    files = dict(zip(keys, paths, strict=True))
    arrays: dict[str, list[Table]] = {}
    for stream, side in enumerate((TRAIN, TEST)):
        images, labels = (_open(files[side, kind], kind) for kind in _KINDS)
        if images.shape[0] != labels.shape[0]:
            raise ValueError(
                f"{labels.path} holds {labels.shape[0]:,} labels, {images.path} {images.shape[0]:,} images"
            )
        arrays[side] = [NoisyImages(images, noise, seed, stream)]
        arrays[f"{side}_labels"] = [labels]
    job.require_counts({side: arrays[side][0].shape[0] for side in (TRAIN, TEST)})
    job.write_tables(arrays, paths, [noise, seed])


def _open(path: Path, kind: str) -> IdxTable:
    table = IdxTable.open(path, int(kind[-1]))
    if table.shape[1:] not in ((), _SHAPE[:2]):
        raise ValueError(f"{path} holds images of {table.shape[1:]} pixels, expected {_SHAPE[:2]}")
    return table


prepare = Recipe("emnist", write).prepare
