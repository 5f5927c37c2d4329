"""SVHN (Netzer et al., 2011), cropped digits, as a store.

The files are ``train_32x32.mat``, ``extra_32x32.mat`` and ``test_32x32.mat``; *train* and *extra* are merged in this
order. The label 10 of the digit 0 becomes 0. MATLAB's format cannot be read in ranges, so each file is unpacked once,
beside the target; the calling process needs some 4 GB of memory for the largest one. Needs SciPy (the extra
``recipes``).
"""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.builds import begin, in_work, require_unchanged
from vmfa_dask.data_prep.recipes.files import find
from vmfa_dask.data_prep.recipes.jobs import Job, outlines_of
from vmfa_dask.data_prep.recipes.paper import DATA_SETS
from vmfa_dask.data_prep.recipes.recipe import Recipe
from vmfa_dask.data_prep.shards import write_store
from vmfa_dask.data_prep.source_files import damage_named, file_fingerprint, place_named
from vmfa_dask.data_prep.splits import TEST, TRAIN
from vmfa_dask.data_prep.tables import Block, RawTable

FILES = {TRAIN: ("train_32x32.mat", "extra_32x32.mat"), TEST: ("test_32x32.mat",)}
_SHAPE = DATA_SETS["svhn"].shape
_UINT8 = np.dtype(np.uint8)
_ROWS_AT_A_TIME = 4096
_MOST_COMPRESSED = 1032  # of deflate


def write(job: Job) -> None:
    """Write ``train``, ``test`` (N, 32, 32, 3) uint8 and ``train_labels``, ``test_labels`` (N,) uint8.

    Parameters
    ----------
    job : Job
        Its sources hold the three files.

    Raises
    ------
    ImportError
        If SciPy is not installed.
    ValueError
        Naming what is missing, damaged or differs from the paper.
    """
    _scipy_io()
    by_side = _find(job)
    counts = {path: _count(path) for paths in by_side.values() for path in paths}
    job.require_counts({side: sum(counts[path] for path in paths) for side, paths in by_side.items()})
    files = list(counts)
    origin, fingerprints = job.origin(files), [file_fingerprint(path) for path in files]
    with in_work(job.target) as folder:
        begin(folder, fingerprints, origin)
        arrays: dict[str, list[RawTable]] = {}
        for side, paths in by_side.items():
            unpacked = [_unpacked(path, counts[path], folder) for path in paths]
            arrays[side] = [images for images, _ in unpacked]
            arrays[f"{side}_labels"] = [labels for _, labels in unpacked]
        attributes = {"sources": json.dumps(origin)}
        write_store(folder / "store", outlines_of(arrays), attributes, client=job.client, workers=job.workers)
        require_unchanged(fingerprints, [file_fingerprint(path) for path in files])
        os.rename(folder / "store", job.target)
        shutil.rmtree(folder)


def _find(job: Job) -> dict[str, list[Path]]:
    """Files per side; all of them, unless the job is `partial`."""
    files = {name: find(job.sources, [name]) for names in FILES.values() for name in names}
    job.require([f"{name} is missing" for name, path in files.items() if path is None])
    by_side = {side: [path for name in names if (path := files[name]) is not None] for side, names in FILES.items()}
    for side, paths in by_side.items():
        if not paths:
            raise ValueError(f"{job.name}: no {side} images; expected {', '.join(FILES[side])}")
    return by_side


def _scipy_io() -> Any:
    try:
        import scipy.io  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError("SVHN needs SciPy: pip install '.[recipes]'") from error
    return scipy.io


def _count(path: Path) -> int:
    """Images in a file, from the headers alone."""
    io = _scipy_io()
    with damage_named(path, "cannot be read as a MATLAB file"):
        variables = {name: (tuple(shape), kind) for name, shape, kind in io.whosmat(path)}
    shape, kind = variables.get("X", ((), "nothing"))
    if len(shape) != 4 or shape[:3] != _SHAPE or kind != "uint8" or variables.get("y", ((),))[0] != (shape[3], 1):
        raise ValueError(f"{path} holds {variables}, expected X of (32, 32, 3, N) uint8 and y of (N, 1)")
    if (stated := math.prod(shape)) > _MOST_COMPRESSED * path.stat().st_size:
        raise ValueError(f"{path} states {stated:,} pixel values, more than its {path.stat().st_size:,} bytes can hold")
    return int(shape[3])


def _unpacked(path: Path, n_rows: int, folder: Path) -> tuple[RawTable, RawTable]:
    """Images and labels of a file as plain rows in `folder`, those of an earlier call if they are complete."""
    images = RawTable(folder / f"{path.name}.rows", (n_rows, *_SHAPE), _UINT8)
    labels = RawTable(folder / f"{path.name}.labels", (n_rows,), _UINT8)
    if not images.path.is_file():
        _write_rows(images.path, _load(path, "X").transpose(3, 0, 1, 2))
    if not labels.path.is_file():
        digits = _load(path, "y").reshape(-1)
        if digits.min() < 1 or digits.max() > 10:
            raise ValueError(f"{path} has labels from {digits.min()} to {digits.max()}, expected 1 to 10")
        _write_rows(labels.path, digits % 10)
    return images, labels


def _load(path: Path, variable: str) -> Block:
    with damage_named(path, "is damaged"):
        array: Block = _scipy_io().loadmat(path, variable_names=[variable])[variable]
    return array


def _write_rows(path: Path, rows: Block) -> None:
    """Write rows in blocks: a contiguous copy of all of them would double the memory."""
    unfinished = path.with_name(path.name + ".tmp")
    with place_named(unfinished), unfinished.open("wb") as file:
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            file.write(np.ascontiguousarray(rows[start : start + _ROWS_AT_A_TIME], _UINT8).data)
    os.replace(unfinished, path)


prepare = Recipe("svhn", write).prepare
