"""CelebA (Liu et al., 2015), aligned and cropped faces, as a store of 64 x 64 pixels.

The folder holds ``list_eval_partition.txt`` and the images of 178 x 218 pixels as ``img_align_celeba`` or
``img_align_celeba.zip``. *train* and *valid* are merged. Preprocessing is that of Richardson and Weiss (2018): their
repository (https://github.com/eitanrich/gans-n-gmms, ``mfa_train_celeba.py``) cuts out 128 x 128 pixels whose upper
left corner is at x = 25, y = 50, and resizes bilinearly to 64 x 64 by OpenCV, which at half the size is the mean of
2 x 2 pixels. Rounding of halves may differ by one grey level from OpenCV's.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from vmfa_dask.data_prep.image_archives import ZipArchive
from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_sources import Folder, Source
from vmfa_dask.data_prep.image_store import write_images
from vmfa_dask.data_prep.recipes.files import find_all
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.recipes.paper import DATA_SETS
from vmfa_dask.data_prep.recipes.recipe import Recipe
from vmfa_dask.data_prep.source_files import damage_named
from vmfa_dask.data_prep.splits import TEST, TRAIN

PARTITION = "list_eval_partition.txt"
IMAGES = ("img_align_celeba", "img_align_celeba.zip")
CROP = (25, 50, 128, 128)
_SIDES = {"0": TRAIN, "1": TRAIN, "2": TEST}
_ORIGINAL = (178, 218)


def write(job: Job, *, crop: tuple[int, int, int, int] = CROP, max_unpacked: int | None = None) -> None:
    """Write ``train`` and ``test`` (N, 64, 64, 3) uint8, in the order of the names or of the zip archive.

    Parameters
    ----------
    job : Job
        Its sources hold the partition and the images.
    crop : (int, int, int, int)
        Left, top, width and height of the rectangle that is kept, in pixels.
    max_unpacked : int, optional
        Largest size in bytes that the zip archive may unpack to; by default 1 GiB, or 100 times its own size if that
        is more.

    Raises
    ------
    ValueError
        Naming what is missing, damaged or differs from the paper.
    """
    shape = DATA_SETS[job.name].shape
    shaping = Shaping(shape[:2], 3, crop)
    partition, images = find_all(job.name, job.sources, [(PARTITION,), IMAGES])
    names = _read_partition(partition)
    job.require_counts({side: len(side_names) for side, side_names in names.items()})
    members = _members(images)
    missing = [name for side_names in names.values() for name in side_names if name not in members]
    job.require([f"{len(missing):,} images are missing in {images}, the first is {missing[0]}"] if missing else [])
    by_side: dict[str, Source] = {}
    for side, side_names in names.items():
        side_members = [members[name] for name in side_names if name in members]
        if not side_members:
            raise ValueError(f"{job.name}: no {side} image of {partition} is in {images}")
        by_side[side] = _source(images, side_members, max_unpacked)
    _require_original(by_side[TRAIN], images)
    plan = Plan(tuple(by_side.values()), shaping, sides=tuple(by_side), shape=shape)
    write_images(plan, job.target, client=job.client, workers=job.workers, accept=job.require_counts)


def _read_partition(path: Path) -> dict[str, list[str]]:
    """Names of the images per side, sorted."""
    names: dict[str, list[str]] = {TRAIN: [], TEST: []}
    with damage_named(path):
        lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or fields[1] not in _SIDES or "/" in fields[0]:
            raise ValueError(f"{path}, line {number}: {line[:80]!r}, expected a file name and 0, 1 or 2")
        names[_SIDES[fields[1]]].append(fields[0])
    return {side: sorted(listed) for side, listed in names.items()}


def _members(images: Path) -> dict[str, str]:
    """File names and their places inside of the source."""
    if images.is_dir():
        return {name: name for name in os.listdir(images)}
    with damage_named(images, "is damaged or not a zip archive"), zipfile.ZipFile(images) as archive:
        return {name.rpartition("/")[2]: name for name in archive.namelist() if not name.endswith("/")}


def _source(images: Path, members: Iterable[str], max_unpacked: int | None) -> Source:
    if images.is_dir():
        return Folder(images, tuple(members))
    return ZipArchive(images, frozenset(members), max_unpacked)


def _require_original(source: Source, images: Path) -> None:
    """The rectangle is meant for the aligned images: it would cut anything out of others."""
    entry = next(iter(source.entries()))
    if entry.content is None:
        return
    try:
        with Image.open(_stream(entry.content), formats=("JPEG", "PNG")) as image:
            size = image.size
    except MemoryError:
        raise
    except Exception:  # damage and bombs are of many types; they are counted as skipped when images are decoded
        return
    if size != _ORIGINAL:
        raise ValueError(
            f"{images}: {entry.key} has {size[0]} x {size[1]} pixels, expected {_ORIGINAL[0]} x {_ORIGINAL[1]} as in "
            "the aligned and cropped version"
        )


def _stream(content: Path | bytes) -> Any:
    return BytesIO(content) if isinstance(content, bytes) else content


prepare = Recipe("celeba", write).prepare
