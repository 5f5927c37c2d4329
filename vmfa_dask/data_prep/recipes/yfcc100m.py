"""YFCC100M (Thomee et al., 2016) as a store of 32 x 32 pixels.

Sources are tar archives (as of WebDataset), zip archives, folders, or texts (``.txt``) that name archives or else
image files, one per line. Images are cropped around their centre and resized bilinearly. The test split is drawn by a
hash of the names inside the sources, so its size differs from the paper's by chance; some of the paper's images are no
longer available. Counts that differ are therefore reported, never refused.
"""

from __future__ import annotations

import logging
from pathlib import Path

from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_sources import FileList, Source, open_sources
from vmfa_dask.data_prep.image_store import write_images
from vmfa_dask.data_prep.recipes.jobs import Job
from vmfa_dask.data_prep.recipes.paper import DATA_SETS, differences, require
from vmfa_dask.data_prep.recipes.recipe import Recipe
from vmfa_dask.data_prep.shards import require_apart
from vmfa_dask.data_prep.splits import HashSplit

logger = logging.getLogger(__name__)

BESIDE_IMAGES = (".json", ".txt", ".cls")
"""Endings of members that WebDataset puts beside an image."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def write(
    job: Job, *, test_share: float = 0.05, seed: int = 0, max_unpacked: int | None = None
) -> None:
    """Write ``train`` and ``test`` (N, 32, 32, 3) uint8.

    Parameters
    ----------
    job : Job
        Its sources are archives, folders, and texts that name archives or images. `partial` has no effect: counts that
        differ from the paper's are always accepted, with a warning.
    test_share : float
        Probability that an image is drawn for ``test``.
    seed : int
        Seed of the split.
    max_unpacked : int, optional
        As in `images_to_zarr`.

    Raises
    ------
    ValueError
        If an argument is out of range, an archive is damaged or no image can be read.
    FileNotFoundError
        If an archive that a text names does not exist.
    """
    split = HashSplit(test_share, seed)
    require_apart(job.target, job.sources)
    sources = tuple(source for path in job.sources for source in _open(path, max_unpacked))
    plan = Plan(sources, Shaping(DATA_SETS[job.name].shape[:2], 3), split=split, ignored=BESIDE_IMAGES)
    report = write_images(plan, job.target, client=job.client, workers=job.workers)
    logger.info("%d images were skipped", report.n_skipped)
    require(job.name, differences(job.name, report.rows), partial=True)


def _open(path: Path, max_unpacked: int | None) -> list[Source]:
    if path.suffix != ".txt":
        return open_sources([path], max_unpacked)
    with path.open(encoding="utf-8", errors="surrogateescape") as text:
        first = next((line.strip() for line in text if line.strip()), "")
    if not first:
        raise ValueError(f"{path} names nothing; expected an archive or an image file per line")
    if not first.lower().endswith(_ARCHIVES):
        return [FileList(path)]
    with path.open(encoding="utf-8", errors="surrogateescape") as text:
        lines = [line.strip() for line in text if line.strip()]
    for line in lines:
        if not line.lower().endswith(_ARCHIVES):
            raise ValueError(f"{path}: {line!r} is no archive like the first line; expected a text of one kind")
    return open_sources([path.parent / line for line in lines], max_unpacked)


prepare = Recipe("yfcc100m", write).prepare
