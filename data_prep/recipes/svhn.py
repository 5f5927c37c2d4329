"""SVHN (Netzer et al., 2011), cropped digits, as a store.

    python -m data_prep.recipes.svhn FOLDER TARGET.zarr

The files are ``train_32x32.mat``, ``extra_32x32.mat`` and ``test_32x32.mat``; *train* and *extra* are merged in this
order. The label 10 of the digit 0 becomes 0. A file is unpacked once, beside the target, as MATLAB's format cannot be
read in ranges; the largest one needs some 4 GB of memory for that, in the process that was called. Needs SciPy (the
extra ``recipes``).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.builds import begin, in_work, require_unchanged
from data_prep.recipes.command import fingerprint, outlines_of, parser, run
from data_prep.recipes.files import existing, find
from data_prep.recipes.paper import DATA_SETS, differences, require
from data_prep.shards import Block, RawTable, require_place, write_store
from data_prep.source_files import damage_named, file_fingerprint, place_named
from data_prep.splits import TEST, TRAIN

NAME = "svhn"
FILES = {TRAIN: ("train_32x32.mat", "extra_32x32.mat"), TEST: ("test_32x32.mat",)}
_SHAPE = DATA_SETS[NAME].shape
_UINT8 = np.dtype(np.uint8)
_ROWS_AT_A_TIME = 4096
_MOST_COMPRESSED = 1032  # of deflate


def prepare(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    partial: bool = False,
    client: Any = None,
    workers: int | None = None,
) -> dict[str, int]:
    """Write ``train``, ``test`` (N, 32, 32, 3) uint8 and ``train_labels``, ``test_labels`` (N,) uint8.

    Parameters
    ----------
    sources : sequence of path
        Files, or folders that hold them.
    target : path
        The new store, a group.
    partial : bool
        Go on where files are missing or counts are not the paper's.
    client, workers
        As in `images_to_zarr`.

    Returns
    -------
    dict of str to int
        Rows of ``train`` and ``test``.

    Raises
    ------
    ImportError
        When SciPy is not installed.
    ValueError
        Naming what is missing, damaged or differs.
    FileExistsError, FileNotFoundError
        When there is something at `target`; when its folder or a source does not exist.
    """
    _scipy_io()
    paths, place = existing(sources), Path(target).absolute()
    require_place(place)
    files = {name: find(paths, [name]) for names in FILES.values() for name in names}
    require(NAME, [f"{name} is missing" for name, path in files.items() if path is None], partial)
    there = {side: [path for name in names if (path := files[name]) is not None] for side, names in FILES.items()}
    for side, found in there.items():
        if not found:
            raise ValueError(f"{NAME}: no {side} images; expected {', '.join(FILES[side])}")
    counts = {path: _count(path) for found in there.values() for path in found}
    require(NAME, differences(NAME, {side: sum(counts[p] for p in found) for side, found in there.items()}), partial)
    read = list(counts)
    origin, prints = [NAME, [fingerprint(path) for path in read]], [file_fingerprint(path) for path in read]
    with in_work(place) as work:
        begin(work, prints, origin)
        arrays: dict[str, list[RawTable]] = {}
        for side, found in there.items():
            unpacked = [_unpacked(path, counts[path], work) for path in found]
            arrays[side] = [rows for rows, _ in unpacked]
            arrays[f"{side}_labels"] = [labels for _, labels in unpacked]
        attributes = {"sources": json.dumps(origin)}
        write_store(work / "store", outlines_of(arrays), attributes, client=client, workers=workers)
        require_unchanged(prints, [file_fingerprint(path) for path in read])
        os.rename(work / "store", place)
        shutil.rmtree(work)
    return {side: sum(rows.shape[0] for rows in arrays[side]) for side in (TRAIN, TEST)}


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
        found = {name: (tuple(shape), kind) for name, shape, kind in io.whosmat(path)}
    shape, kind = found.get("X", ((), "nothing"))
    if len(shape) != 4 or shape[:3] != _SHAPE or kind != "uint8" or found.get("y", ((),))[0] != (shape[3], 1):
        raise ValueError(f"{path} holds {found}, expected X of (32, 32, 3, N) uint8 and y of (N, 1)")
    if (stated := math.prod(shape)) > _MOST_COMPRESSED * path.stat().st_size:
        raise ValueError(f"{path} states {stated:,} pixel values, more than its {path.stat().st_size:,} bytes can hold")
    return int(shape[3])


def _unpacked(path: Path, n_rows: int, folder: Path) -> tuple[RawTable, RawTable]:
    """Images and labels of a file as plain rows in `folder`, from an earlier call where they are whole."""
    images = RawTable(folder / f"{path.name}.rows", (n_rows, *_SHAPE), _UINT8)
    labels = RawTable(folder / f"{path.name}.labels", (n_rows,), _UINT8)
    if not images.path.is_file():
        _write(images.path, _load(path, "X").transpose(3, 0, 1, 2))
    if not labels.path.is_file():
        digits = _load(path, "y").reshape(-1)
        if digits.min() < 1 or digits.max() > 10:
            raise ValueError(f"{path} has labels from {digits.min()} to {digits.max()}, expected 1 to 10")
        _write(labels.path, digits % 10)
    return images, labels


def _load(path: Path, variable: str) -> Block:
    with damage_named(path, "is damaged"):
        array: Block = _scipy_io().loadmat(path, variable_names=[variable])[variable]
    return array


def _write(path: Path, rows: Block) -> None:
    """Write rows in blocks, as a whole copy in this order would take the memory once more."""
    unfinished = path.with_name(path.name + ".tmp")
    with place_named(unfinished), unfinished.open("wb") as file:
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            file.write(np.ascontiguousarray(rows[start : start + _ROWS_AT_A_TIME], _UINT8).data)
    os.replace(unfinished, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    expects = "SVHN from train_32x32.mat, extra_32x32.mat and test_32x32.mat."
    return run(NAME, prepare, parser(NAME, expects).parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
