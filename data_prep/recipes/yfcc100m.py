"""YFCC100M (Thomee et al., 2016) as a store of 32 x 32 pixels.

    python -m data_prep.recipes.yfcc100m SOURCE [SOURCE ...] TARGET.zarr [--test-share 0.05] [--seed 0]

Sources are tar archives (as of WebDataset), zip archives, folders, or texts (``.txt``) that name archives or else
image files, one per line. Images are cropped around their centre and resized bilinearly. The test split is a hash of
the names inside of the sources, so that its size differs from the paper's by chance; which images are still there
differs as well. Counts are compared, and nothing is refused for them.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.image_decoding import Shaping
from data_prep.image_plan import Plan
from data_prep.image_sources import FileList, Source, open_sources
from data_prep.image_store import write_images
from data_prep.recipes.command import add_limit, parser, run
from data_prep.recipes.files import existing
from data_prep.recipes.paper import DATA_SETS, differences, require
from data_prep.shards import require_apart, require_place
from data_prep.splits import HashSplit

logger = logging.getLogger(__name__)

NAME = "yfcc100m"
BESIDE_IMAGES = (".json", ".txt", ".cls")
"""Endings of members that WebDataset puts beside an image."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def prepare(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    test_share: float = 0.05,
    seed: int = 0,
    partial: bool = True,
    max_unpacked: int | None = None,
    client: Any = None,
    workers: int | None = None,
) -> dict[str, int]:
    """Write ``train`` and ``test`` (N, 32, 32, 3) uint8.

    Parameters
    ----------
    sources : sequence of path
        Archives, folders, and texts that name archives or images.
    target : path
        The new store, a group.
    test_share, seed
        As in `images_to_zarr`.
    partial : bool
        Without effect: counts are compared only.
    max_unpacked, client, workers
        As in `images_to_zarr`.

    Returns
    -------
    dict of str to int
        Rows of ``train`` and ``test``.

    Raises
    ------
    ValueError
        When an argument is out of range, an archive is damaged or no image can be read.
    FileExistsError, FileNotFoundError
        When there is something at `target`; when its folder, a source or an archive in a text does not exist.
    """
    split = HashSplit(test_share, seed)
    paths, place = existing(sources), Path(target).absolute()
    require_place(place)
    require_apart(place, paths)
    opened = tuple(source for path in paths for source in _open(path, max_unpacked))
    plan = Plan(opened, Shaping(DATA_SETS[NAME].shape[:2], 3), split=split, ignored=BESIDE_IMAGES)
    report = write_images(plan, place, client=client, workers=workers)
    logger.info("%d images were skipped", report.n_skipped)
    require(NAME, differences(NAME, report.rows), partial=True)
    return report.rows


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = parser(NAME, "YFCC100M from archives, folders, and texts that name archives or images.")
    options.add_argument("--test-share", type=float, default=0.05, help="of the test split (default: 0.05)")
    options.add_argument("--seed", type=int, default=0, help="of the test split (default: 0)")
    add_limit(options)
    return run(NAME, prepare, options.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
