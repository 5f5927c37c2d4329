"""Turns folders, tar and zip archives of images into one uint8 Zarr array of shape (N, height, width, channels).

    python -m vmfa_dask.data_prep.images_to_zarr SOURCE [SOURCE ...] TARGET.zarr [--size H W] [--channels 1|3]
        [--frames first|all] [--test-share 0.05 --seed 0] [--cluster URL]

Sources keep their given order, archives the order of their members, folders are sorted by path. Images that cannot be
used are skipped and reported, never replaced. An interrupted call resumes when it is made again. Imports `commands`,
`image_sources`, `image_decoding`, `image_plan`, `image_store`, `shards` and `splits`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vmfa_dask.data_prep.commands import run_command
from vmfa_dask.data_prep.image_decoding import FRAMES, Shaping
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_sources import open_sources
from vmfa_dask.data_prep.image_store import Report, write_images
from vmfa_dask.data_prep.shards import listed_sources, require_apart
from vmfa_dask.data_prep.splits import HashSplit

_STORE_MARKERS = ("zarr.json", ".zarray", ".zgroup")
PRINTED = 1000
"""Number of skipped images that the command names; the store lists more."""


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vmfa_dask.data_prep.images_to_zarr",
        description="Turn folders, tar and zip archives of images into a uint8 Zarr array (N, height, width, channel).",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="folder, .tar, .tar.gz or .zip, or an image")
    parser.add_argument("target", metavar="TARGET.zarr", help="the new store")
    parser.add_argument("--size", nargs=2, type=int, metavar=("H", "W"), help="crop around the centre and resize")
    parser.add_argument("--channels", type=int, choices=(1, 3), default=3, help="grey or RGB (default: 3)")
    parser.add_argument(
        "--frames", choices=FRAMES, default="first", help="frames or pages that become rows (default: first)"
    )
    parser.add_argument("--rows-per-chunk", type=int, metavar="N", help="images per chunk (default: about 2 MiB)")
    parser.add_argument("--test-share", type=float, metavar="SHARE", help="draw a test split, as arrays train and test")
    parser.add_argument("--seed", type=int, default=0, help="seed of the test split (default: 0)")
    parser.add_argument(
        "--max-unpacked",
        type=int,
        metavar="BYTES",
        help="largest size that an archive may unpack to (default: 1 GiB, or 100 times its size if that is more)",
    )
    parser.add_argument("--cluster", metavar="URL", help="Dask scheduler whose workers write the store")
    parser.add_argument("--workers", type=int, metavar="N", help="number of processes (default: one per core)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing store")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; returns its exit code."""
    options = vars(_parser().parse_args(arguments))
    size, cluster = options.pop("size"), options.pop("cluster")
    options["size"] = None if size is None else tuple(size)
    return run_command(lambda client: print_report(images_to_zarr(**options, client=client)), cluster)


def print_report(report: Report) -> None:
    """Print the counts, and to the error stream what was skipped.

    Parameters
    ----------
    report : Report
        Of a finished call.
    """
    for name, reason in report.skipped[:PRINTED]:
        # Names come from foreign archives: control characters must not reach the terminal.
        print(f"skipped {name!a}: {reason!a}", file=sys.stderr)
    sides = ", ".join(f"{n} {side}" for side, n in report.rows.items() if side)
    unused = f", {report.unused_frames} frames of {report.unused_files} file(s) not used" if report.unused_files else ""
    print(f"{report.written} images written{f' ({sides})' if sides else ''}, {report.n_skipped} skipped{unused}")


if __name__ == "__main__":
    sys.exit(main())
