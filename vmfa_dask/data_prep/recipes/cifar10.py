"""CIFAR-10 (Krizhevsky, 2009) as a store, from its binary version or from tar archives of JPEG images.

The binary version is ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin`` of 10,000 records each: a
label, then 32 x 32 values of red, of green and of blue. Archives are ``train-*.tar`` and ``test-*.tar``, whose members
lie in folders named for the classes; pixels then differ a little from the original, as JPEG loses some.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_sources import open_sources
from vmfa_dask.data_prep.image_store import write_images
from vmfa_dask.data_prep.recipes.files import find, matching
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.recipes.paper import DATA_SETS
from vmfa_dask.data_prep.recipes.recipe import Recipe
from vmfa_dask.data_prep.splits import TEST, TRAIN
from vmfa_dask.data_prep.tables import Block

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES = {TRAIN: tuple(f"data_batch_{k}.bin" for k in range(1, 6)), TEST: ("test_batch.bin",)}
RECORDS_PER_FILE = 10_000
_SHAPE = DATA_SETS["cifar10"].shape
_RECORD_BYTES = 1 + 32 * 32 * 3


@dataclass(frozen=True)
class Records:
    """Images, or else labels, of a file of the binary version.

    Parameters
    ----------
    path : path
        A file of `FILES`.
    n_records : int
        Number of images in it.
    labels : bool
        Whether this table holds the labels.
    """

    path: Path
    n_records: int
    labels: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """(images, 32, 32, 3), or (images,) of labels."""
        return (self.n_records,) if self.labels else (self.n_records, *_SHAPE)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always uint8."""
        return np.dtype(np.uint8)

    def read(self, start: int, stop: int) -> Block:
        """Read images or labels ``start:stop``, as in `tables.Table.read`; labels above 9 are refused."""
        n_bytes, offset = (stop - start) * _RECORD_BYTES, start * _RECORD_BYTES
        flat = np.fromfile(self.path, np.uint8, n_bytes, offset=offset)
        if len(flat) < n_bytes:
            raise ValueError(f"{self.path}: ends before image {stop - 1}, which was there when the call began")
        records = flat.reshape(stop - start, _RECORD_BYTES)
        if not self.labels:
            return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        if records[:, 0].max() >= len(CLASSES):
            row = start + int(np.argmax(records[:, 0] >= len(CLASSES)))
            raise ValueError(f"{self.path}: image {row} has the label {records[row - start, 0]}, expected 0 to 9")
        return records[:, 0]


def write(job: Job, *, max_unpacked: int | None = None) -> None:
    """Write ``train``, ``test`` (N, 32, 32, 3) uint8 and ``train_labels``, ``test_labels`` (N,) uint8.

    Parameters
    ----------
    job : Job
        Its sources hold the binary version or archives; if both, the binary version is taken.
    max_unpacked : int, optional
        Limit per archive, as in `images_to_zarr`.

    Raises
    ------
    ValueError
        Naming what is missing, damaged or differs from the paper.
    """
    archives = [(path, side) for side in (TRAIN, TEST) for path in matching(job.sources, f"{side}-*.tar")]
    binary = {name: find(job.sources, [name]) for side in FILES for name in FILES[side]}
    if any(binary.values()):
        _write_records(job, binary)
    elif archives:
        _write_archives(job, archives, max_unpacked)
    else:
        expected = f"{', '.join(binary)}, or train-*.tar and test-*.tar"
        raise ValueError(f"{job.name}: nothing of it in {', '.join(map(str, job.sources))}; expected {expected}")


def _write_records(job: Job, binary: dict[str, Path | None]) -> None:
    complaints = [f"{name} is missing" for name, path in binary.items() if path is None]
    counts = {name: _count(path) for name, path in binary.items() if path is not None}
    complaints += [
        f"{name} holds {n:,} images, expected {RECORDS_PER_FILE:,}"
        for name, n in counts.items()
        if n != RECORDS_PER_FILE
    ]
    job.require(complaints)
    arrays = {}
    for side, names in FILES.items():
        files = [(path, counts[name]) for name in names if (path := binary[name]) is not None]
        if not files:
            raise ValueError(f"{job.name}: no {side} images; expected {', '.join(names)}")
        arrays[side] = [Records(path, n, False) for path, n in files]
        arrays[f"{side}_labels"] = [Records(path, n, True) for path, n in files]
    job.write_tables(arrays, [path for path in binary.values() if path is not None])


def _count(path: Path) -> int:
    n_bytes = path.stat().st_size
    if n_bytes == 0 or n_bytes % _RECORD_BYTES:
        raise ValueError(f"{path} has {n_bytes:,} bytes, expected a multiple of {_RECORD_BYTES:,}, one per image")
    return n_bytes // _RECORD_BYTES


def _write_archives(job: Job, archives: list[tuple[Path, str]], max_unpacked: int | None) -> None:
    sources = tuple(open_sources([path for path, _ in archives], max_unpacked))
    sides = tuple(side for _, side in archives)
    n_members = dict.fromkeys((TRAIN, TEST), 0)
    for source, side in zip(sources, sides, strict=True):
        n_members[side] += sum(1 for _ in source.entries())
    job.require_counts(n_members)
    plan = Plan(sources, Shaping(), sides=sides, classes=CLASSES, shape=_SHAPE)
    write_images(plan, job.target, client=job.client, workers=job.workers, accept=job.require_counts)


prepare = Recipe("cifar10", write).prepare
