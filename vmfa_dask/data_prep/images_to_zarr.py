"""Turns folders, tar and zip archives of images into one uint8 Zarr array of shape (N, height, width, channels).

Sources keep their given order, archives the order of their members, folders are sorted by path. Images that cannot be
used are skipped and reported, never replaced. An interrupted call resumes when it is made again.
Imports `image_sources`, `image_decoding`, `image_plan`, `image_store`, `shards` and `splits`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_sources import open_sources
from vmfa_dask.data_prep.image_store import Report, write_images
from vmfa_dask.data_prep.shards import listed_sources, require_apart
from vmfa_dask.data_prep.splits import HashSplit

_STORE_MARKERS = ("zarr.json", ".zarray", ".zgroup")


def images_to_zarr(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    frames: str = "first",
    rows_per_chunk: int | None = None,
    test_share: float | None = None,
    seed: int = 0,
    max_unpacked: int | None = None,
    client: Any = None,
    workers: int | None = None,
    overwrite: bool = False,
) -> Report:
    """Write the images of all sources to one Zarr array, or to a group of two.

    Parameters
    ----------
    sources : path or sequence of path
        Folders, archives (`.tar`, `.tar.gz`, `.zip`) and image files.
    target : path
        The new store. It appears when it is complete; until then ``TARGET.partial`` beside it holds decoded parts, from
        which the same call resumes. It needs twice the space of the store.
    size : (int, int), optional
        Height and width: images are cropped around their centre to this aspect ratio and resized bilinearly. By
        default images that differ in size from the first one are skipped.
    channels : {1, 3}
        Grey or RGB. Transparency is dropped.
    frames : {"first", "all"}
        Whether the first or each frame of a file with several ones (TIFF, GIF, animated PNG and WebP) becomes a row.
        The report counts those that are not used. All frames of a file are on the same side of a split.
    rows_per_chunk : int, optional
        Images per Zarr chunk; by default about 2 MiB of them. A shard holds 32 chunks.
    test_share : float, optional
        Probability that an image is drawn for ``test``; the store becomes a group of two arrays, ``train`` and
        ``test``. The draw is a hash of `seed` and the name of the image inside its source: the order and names of
        sources and the workers do not affect it.
    seed : int
        Seed of the test split.
    max_unpacked : int, optional
        Largest size in bytes that each archive may unpack to; by default 1 GiB, or 100 times its own size if that is
        more.
    client : distributed.Client, optional
        Workers that decode and write, one task per 4,096 files of a folder or of a plain tar archive, and one per
        other archive; they must see sources and target. By default processes on this machine do the work.
    workers : int, optional
        Number of processes; by default one per available core. (Where Python starts them afresh, as on macOS and
        Windows, a script must call this function under ``if __name__ == "__main__":``.)
    overwrite : bool
        Replace an existing Zarr store.

    Returns
    -------
    Report
        The number of rows written and what was skipped. The store keeps both: its attributes count per source, and
        ``skipped.jsonl`` (in ``train`` if there are two arrays) lists the first 100,000 names and reasons. The
        attribute ``unused`` counts frames that were not used.

    Raises
    ------
    ValueError
        If an argument is out of range, an archive is damaged or unpacks to too much, a source is neither file nor
        folder, no image can be read, sources changed during the call, or ``TARGET.partial`` was begun from other
        sources or with other options.
    FileExistsError
        If there is something at `target` that must not be replaced, or another process is writing it.
    FileNotFoundError
        If a source, or the folder of `target`, does not exist.

    Notes
    -----
    The orientation in the EXIF data of an image is applied. Images with more than 8 bits in their only channel are
    skipped, as narrowing them needs a choice of range. Names are labels: two images of the same name in an archive are
    two rows, on the same side of a split. Smaller copies and masks in a TIFF, and further pictures in a JPEG (previews,
    gain maps), do not count as frames.
    """
    for name, value in {"rows_per_chunk": rows_per_chunk, "workers": workers, "max_unpacked": max_unpacked}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    split = None if test_share is None else HashSplit(test_share, seed)
    shaping = Shaping(size, channels, frames=frames)
    paths, target = listed_sources(sources), Path(target).absolute()
    _check_target(target, paths, overwrite)
    plan = Plan(tuple(open_sources(paths, max_unpacked)), shaping, split=split, rows_per_chunk=rows_per_chunk)
    return write_images(plan, target, client=client, workers=workers, overwrite=overwrite)


def _check_target(target: Path, sources: Sequence[Path], overwrite: bool) -> None:
    require_apart(target, sources)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of target {target} does not exist")
    if os.path.lexists(target):
        if not overwrite:
            raise FileExistsError(f"target {target} exists; remove it, or ask to overwrite it")
        if not any((target / marker).is_file() for marker in _STORE_MARKERS):
            raise FileExistsError(f"target {target} is not a Zarr store and is not overwritten")
