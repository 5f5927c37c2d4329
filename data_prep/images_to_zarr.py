"""Turns folders, tar and zip archives of images into one uint8 Zarr array of shape (N, height, width, channels).

    python -m data_prep.images_to_zarr SOURCE [SOURCE ...] TARGET.zarr [--size H W] [--channels 1|3]

Sources keep their given order, archives the order of their members, folders are sorted by path. Images that cannot be
used are skipped and reported, never replaced. Imports `image_sources`, `image_decoding`,
NumPy and Zarr.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from data_prep.cores import available_cores
from data_prep.image_decoding import Pixels, decode, load_decoders
from data_prep.image_sources import Entry, Source, base_name, open_sources

logger = logging.getLogger(__name__)

CHUNK_BYTES = 4 * 2**20
IN_FLIGHT_PER_WORKER = 8
_STORE_MARKERS = ("zarr.json", ".zarray", ".zgroup")


class Skipped(NamedTuple):
    """An image that is not in the store, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What became of the sources.

    Attributes
    ----------
    written : int
        Number of rows in the store.
    skipped : list of Skipped
        In the order of the sources.
    """

    written: int
    skipped: list[Skipped]


def images_to_zarr(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    rows_per_chunk: int | None = None,
    workers: int | None = None,
    overwrite: bool = False,
) -> Report:
    """Write the images of all sources to one Zarr array.

    Parameters
    ----------
    sources : sequence of path
        Folders and archives (`.tar`, `.tar.gz`, `.zip`).
    target : path
        The new store. It appears when it is complete and not before.
    size : (int, int), optional
        Height and width: images are cropped around their centre to this aspect ratio and resized bilinearly. Without it
        images that differ in size from the first one are skipped.
    channels : {1, 3}
        Grey or RGB. Transparency is dropped.
    rows_per_chunk : int, optional
        Images per Zarr chunk; by default about 4 MiB of them.
    workers : int, optional
        Threads that decode; by default one per available core.
    overwrite : bool
        Replace a Zarr store that is already there.

    Returns
    -------
    Report
        The number of rows written and what was skipped.

    Raises
    ------
    ValueError
        When an argument is out of range, an archive is damaged, or no image could be read.
    FileExistsError
        When there is something at `target` that must not be replaced.
    FileNotFoundError
        When a source, or the folder of `target`, does not exist.

    Notes
    -----
    The orientation an image states in its EXIF data is applied; of several frames the first one is taken. Images with
    more than 8 bits in their only channel are skipped, as narrowing them needs a choice of range.
    """
    workers = available_cores() if workers is None else workers
    _check_arguments(size, channels, rows_per_chunk, workers)
    target = Path(target)
    _check_target(target, [Path(source) for source in sources], overwrite)
    opened = open_sources(sources)
    capacity = sum(source.count() for source in opened)
    load_decoders()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as workspace:
        writer = _Writer(Path(workspace, "complete"), capacity, rows_per_chunk)
        skipped = _write_sources(opened, writer, size, channels, workers)
        if writer.written == 0:
            raise ValueError(f"no image could be read from {len(opened)} source(s); {_first_reason(skipped)}")
        _publish(writer.path, target, Path(workspace, "replaced"), overwrite)
    return Report(writer.written, skipped)


class _Writer:
    """Collects images to whole chunks of an array that is created with the first image."""

    def __init__(self, path: Path, capacity: int, rows_per_chunk: int | None) -> None:
        self.path = path
        self.written = 0
        self._capacity = capacity
        self._rows_per_chunk = rows_per_chunk
        self._array: zarr.Array[Any] | None = None
        self._rows: list[Pixels] = []

    def add(self, pixels: Pixels) -> str:
        """Append one image; return why it was refused, or an empty string."""
        if self._array is None:
            self._array = self._create(pixels.shape)
        if pixels.shape != self._array.shape[1:]:
            return f"{_size_text(pixels.shape)}, but the first image has {_size_text(self._array.shape[1:])}"
        self._rows.append(pixels)
        self.written += 1
        if len(self._rows) == self._array.chunks[0]:
            self._flush()
        return ""

    def close(self, attributes: dict[str, Any]) -> None:
        """Write the last rows, cut the array to what was written, and describe it."""
        if self._array is None:
            return
        self._flush()
        self._array.resize((self.written, *self._array.shape[1:]))
        self._array.attrs.update(attributes)

    def _create(self, image_shape: tuple[int, ...]) -> zarr.Array[Any]:
        rows = self._rows_per_chunk or max(1, CHUNK_BYTES // int(np.prod(image_shape)))
        return zarr.create_array(
            self.path,
            shape=(self._capacity, *image_shape),
            chunks=(min(rows, self._capacity), *image_shape),
            dtype=np.uint8,
            compressors=None,  # photographs shrink by a few per cent only and every pass would pay for it
            fill_value=0,
            dimension_names=("sample", "height", "width", "channel"),
            # A chunk of black images must exist as well: a missing chunk means lost data.
            config={"write_empty_chunks": True},
        )

    def _flush(self) -> None:
        if self._array is not None and self._rows:
            self._array[self.written - len(self._rows) : self.written] = np.stack(self._rows)
            self._rows.clear()


def _write_sources(
    sources: Sequence[Source],
    writer: _Writer,
    size: tuple[int, int] | None,
    channels: int,
    workers: int,
) -> list[Skipped]:
    skipped: list[Skipped] = []
    counts = []
    with ThreadPoolExecutor(workers) as pool:
        for source in sources:
            rows_before, skipped_before = writer.written, len(skipped)
            for name, outcome in _decoded(source.entries(), size, channels, pool, IN_FLIGHT_PER_WORKER * workers):
                reason = outcome if isinstance(outcome, str) else writer.add(outcome)
                if reason:
                    skipped.append(Skipped(name, reason))
            counts.append(
                {
                    "name": base_name(source.path),
                    "written": writer.written - rows_before,
                    "skipped": len(skipped) - skipped_before,
                }
            )
            logger.info("%(name)s: %(written)d images written, %(skipped)d skipped", counts[-1])
    writer.close({"sources": counts})
    return skipped


def _decoded(
    entries: Iterator[Entry], size: tuple[int, int] | None, channels: int, pool: ThreadPoolExecutor, in_flight: int
) -> Iterator[tuple[str, Pixels | str]]:
    """Yield name and outcome in the order of the entries, with at most `in_flight` images in memory."""
    pending: deque[tuple[str, Future[Pixels | str]]] = deque()
    for entry in entries:
        pending.append((entry.name, pool.submit(decode, entry, size, channels)))
        if len(pending) >= in_flight:
            name, outcome = pending.popleft()
            yield name, outcome.result()
    for name, outcome in pending:
        yield name, outcome.result()


def _check_arguments(size: tuple[int, int] | None, channels: int, rows_per_chunk: int | None, workers: int) -> None:
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ValueError(f"size must be (height, width), both at least 1, got {size}")
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3, got {channels}")
    if rows_per_chunk is not None and rows_per_chunk < 1:
        raise ValueError(f"rows_per_chunk must be at least 1, got {rows_per_chunk}")
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")


def _check_target(target: Path, sources: Sequence[Path], overwrite: bool) -> None:
    place = target.resolve()
    for source in (source.resolve() for source in sources):
        if place.is_relative_to(source) or source.is_relative_to(place):
            raise ValueError(f"target {target} and source {source} lie inside one another")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"the folder of target {target} does not exist")
    if os.path.lexists(target):
        if not overwrite:
            raise FileExistsError(f"target {target} exists; remove it, or ask to overwrite it")
        if not any((target / marker).is_file() for marker in _STORE_MARKERS):
            raise FileExistsError(f"target {target} is not a Zarr store and is not overwritten")


def _publish(complete: Path, target: Path, replaced: Path, overwrite: bool) -> None:
    if overwrite and os.path.lexists(target):
        os.rename(target, replaced)
    try:
        os.rename(complete, target)
    except OSError:
        if os.path.lexists(replaced):
            os.rename(replaced, target)
        raise


def _size_text(image_shape: tuple[int, ...]) -> str:
    return f"{image_shape[0]} x {image_shape[1]} pixels"


def _first_reason(skipped: Sequence[Skipped]) -> str:
    return f"the first is {skipped[0].name!r}: {skipped[0].reason}" if skipped else "they hold no files"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.images_to_zarr",
        description="Turn folders, tar and zip archives of images into a uint8 Zarr array (N, height, width, channel).",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="folder, .tar, .tar.gz or .zip")
    parser.add_argument("target", metavar="TARGET.zarr", help="store to create")
    parser.add_argument("--size", nargs=2, type=int, metavar=("H", "W"), help="crop around the centre and resize")
    parser.add_argument("--channels", type=int, choices=(1, 3), default=3, help="grey or RGB (default: 3)")
    parser.add_argument("--rows-per-chunk", type=int, metavar="N", help="images per chunk (default: about 4 MiB)")
    parser.add_argument("--workers", type=int, metavar="N", help="decoding threads (default: one per core)")
    parser.add_argument("--overwrite", action="store_true", help="replace a store that exists")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    options = vars(_parser().parse_args(arguments))
    size = options.pop("size")
    try:
        report = images_to_zarr(**options, size=None if size is None else tuple(size))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, reason in report.skipped:
        # Names come from foreign archives: control characters must not reach the terminal.
        print(f"skipped {name!a}: {reason!a}", file=sys.stderr)
    print(f"{report.written} images written, {len(report.skipped)} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
