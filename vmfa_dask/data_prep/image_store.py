"""Writes the images of sources to a store in two phases, both of which resume after an interruption.

First each part of the sources is decoded to files of rows, then the rows of all parts are written to shards: how many
rows a source yields is known only when it has been decoded. Both phases write to ``TARGET.partial``, which needs twice
the space of the store. Imports `builds`, `image_begin`, `image_plan`, `image_parts`, `image_records`, `processes`,
`shards`, `tables`, `tasks` and `cores`.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.builds import in_work, require_unchanged
from vmfa_dask.data_prep.cores import available_cores
from vmfa_dask.data_prep.image_begin import begin
from vmfa_dask.data_prep.image_decoding import load_decoders
from vmfa_dask.data_prep.image_entries import base_name
from vmfa_dask.data_prep.image_parts import LISTED, write_part
from vmfa_dask.data_prep.image_plan import Plan
from vmfa_dask.data_prep.image_records import (
    Part,
    Record,
    Skipped,
    Treatment,
    labels_of,
    read_record,
    read_skipped,
    rows_of,
)
from vmfa_dask.data_prep.image_sources import Source
from vmfa_dask.data_prep.processes import process_pool
from vmfa_dask.data_prep.shards import write_store
from vmfa_dask.data_prep.tables import Outline, RawTable
from vmfa_dask.data_prep.tasks import each, in_order

logger = logging.getLogger(__name__)

SKIPPED_FILE = "skipped.jsonl"
VISIBLE_SECONDS = 60
"""Network file systems may show a file that another machine wrote only after some time."""


@dataclass(frozen=True)
class Report:
    """How many images were written and skipped.

    Parameters
    ----------
    written : int
        Number of rows in the store.
    skipped : list of Skipped
        The first 100,000 that were skipped, in the order of the sources.
    n_skipped : int
        Number of all that were skipped.
    rows : dict of str to int
        Number of rows per array; the name is "" if the store is one array.
    unused_files : int
        Number of files with several frames of which only the first one was asked for.
    unused_frames : int
        Number of the other frames of these files.
    """

    written: int
    skipped: list[Skipped]
    n_skipped: int
    rows: dict[str, int]
    unused_files: int = 0
    unused_frames: int = 0


def write_images(
    plan: Plan,
    target: Path,
    *,
    client: Any = None,
    workers: int | None = None,
    overwrite: bool = False,
    accept: Callable[[dict[str, int]], None] | None = None,
) -> Report:
    """Write a store, or resume writing it.

    Parameters
    ----------
    plan : Plan
        Which images become which rows.
    target : path
        Absolute. The store appears there when it is complete.
    client : distributed.Client, optional
        Workers that decode and write; by default processes decode and threads write.
    workers : int, optional
        Number of processes and threads; by default one per available core.
    overwrite : bool
        Replace an existing target.
    accept : callable, optional
        Given the number of rows per array when all images are decoded. An error that it raises ends the call; the same
        call can then be made again.

    Returns
    -------
    Report
        How many images were written and skipped.

    Raises
    ------
    ValueError
        If an archive is damaged, no image can be read, or ``TARGET.partial`` was begun with another plan.
    FileExistsError
        If another process is writing the target.
    """
    with in_work(target) as partial:
        return _write(plan, target, partial, client, workers, overwrite, accept)


def _write(
    plan: Plan,
    target: Path,
    partial: Path,
    client: Any,
    workers: int | None,
    overwrite: bool,
    accept: Callable[[dict[str, int]], None] | None,
) -> Report:
    cut = [source.parts() for source in plan.sources]
    shape, sources = begin(partial, plan, list(map(len, cut)))
    (partial / "parts").mkdir(exist_ok=True)
    treatment = Treatment(partial / "parts", shape, plan.shaping, plan.split, plan.classes, plan.ignored)
    owners, parts = _parts(plan, treatment, cut)
    records = _decode_parts(parts, client, workers)
    counts, outlines = _counts(plan, owners, records), _outlines(plan, parts, records)
    n_skipped = sum(r.skipped for r in records)
    if not (written := sum(sum(r.rows.values()) for r in records)):
        first = next(itertools.chain.from_iterable(map(read_skipped, parts)), Skipped("", "not there"))
        raise ValueError(f"no image could be used; the first is {first.name!r}: {first.reason}")
    rows, store = {name: outlines[name].shape[0] for name in plan.arrays}, partial / "store"
    if accept is not None:
        accept(rows)
    attributes: dict[str, Any] = {"sources": counts, "skipped": n_skipped}
    unused = {name: sum(getattr(r, f"unused_{name}") for r in records) for name in ("files", "frames")}
    if unused["files"]:
        attributes["unused"] = unused
        logger.warning(
            "%d file(s) hold %d frames or pages after their first one, which are not used; frames='all' "
            "(--frames all) makes each of them a row",
            *unused.values(),
        )
    write_store(store, outlines, attributes, client=client, workers=workers)
    skipped = list(itertools.islice(itertools.chain.from_iterable(map(read_skipped, parts)), LISTED))
    _list_skipped(store / plan.arrays[0] / SKIPPED_FILE, skipped)
    require_unchanged(sources, plan.description()["sources"])
    _publish(store, target, partial / "replaced", overwrite)
    shutil.rmtree(partial)
    return Report(written, skipped, n_skipped, rows, unused["files"], unused["frames"])


def _parts(plan: Plan, treatment: Treatment, cut: Sequence[Sequence[Source]]) -> tuple[list[int], list[Part]]:
    """Parts in the order of rows, and the numbers of their sources."""
    pairs = [(owner, part) for owner, parts in enumerate(cut) for part in parts]
    sides = plan.sides or ("",) * len(plan.sources)
    parts = [Part(number, part, sides[owner], treatment) for number, (owner, part) in enumerate(pairs)]
    return [owner for owner, _ in pairs], parts


def _decode_parts(parts: Sequence[Part], client: Any, workers: int | None) -> list[Record]:
    records = [read_record(part) for part in parts]
    missing = [part for part, record in zip(parts, records, strict=True) if record is None]
    if len(missing) < len(parts):
        logger.info("%d of %d parts have been decoded already", len(parts) - len(missing), len(parts))
    for done, (number, record) in enumerate(_decoding(missing, client, workers), len(parts) - len(missing) + 1):
        records[number] = record
        name, written = base_name(parts[number].source.path), sum(record.rows.values())
        logger.info("%s: %d images decoded, %d skipped (%d of %d)", name, written, record.skipped, done, len(parts))
    _require_visible(missing)
    return [record for record in records if record is not None]


def _require_visible(parts: Sequence[Part]) -> None:
    """Refuse parts that workers have written to folders which this machine does not see."""
    deadline = time.monotonic() + VISIBLE_SECONDS
    for part in parts:
        while read_record(part) is None:
            if time.monotonic() > deadline:
                folder = part.treatment.folder
                raise ValueError(f"part {part.number} was decoded but is not in {folder}: workers must see this folder")
            time.sleep(0.5)


def _decoding(parts: Sequence[Part], client: Any, workers: int | None) -> Iterator[tuple[int, Record]]:
    """Parts as they are done: one task each on a cluster or in processes here, which share a part if there are few.

    Not in threads, which share one interpreter: with small images two of them took twice as long as one.
    """
    n_workers = workers or available_cores()
    if client is not None:
        yield from each(write_part, parts, client)
    elif n_workers == 1:
        yield from map(write_part, parts)
    else:
        with process_pool(n_workers, load_decoders) as pool:
            if len(parts) >= 2 * n_workers:
                yield from in_order(pool, write_part, parts, 2 * n_workers)
            else:
                for part in parts:
                    yield write_part(part, pool, n_workers)


def _counts(plan: Plan, owners: Sequence[int], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Images written and skipped per source."""
    written, skipped = Counter[int](), Counter[int]()
    for owner, record in zip(owners, records, strict=True):
        written[owner] += sum(record.rows.values())
        skipped[owner] += record.skipped
    names = [base_name(source.path) for source in plan.sources]
    return [{"name": name, "written": written[k], "skipped": skipped[k]} for k, name in enumerate(names)]


def _outlines(plan: Plan, parts: Sequence[Part], records: Sequence[Record]) -> dict[str, Outline]:
    outlines, shape = {}, parts[0].treatment.shape
    pairs = list(zip(parts, records, strict=True))
    for side in plan.arrays:
        filled = [(part, record) for part, record in pairs if record.rows.get(side)]
        rows = [rows_of(part, record, side) for part, record in filled]
        labels = [table for part, record in filled if (table := labels_of(part, record, side)) is not None]
        rows = rows or [RawTable(Path(), (0, *shape), np.dtype(np.uint8))]
        outlines[side] = Outline(rows, ("sample", "height", "width", "channel"), plan.rows_per_chunk)
        if plan.classes:
            labels = labels or [RawTable(Path(), (0,), np.dtype(np.uint8))]
            outlines[f"{side}_labels"] = Outline(labels, ("sample",))
    return outlines


def _list_skipped(file: Path, skipped: Sequence[Skipped]) -> None:
    with file.open("w", encoding="ascii") as lines:
        lines.writelines(json.dumps(entry._asdict()) + "\n" for entry in skipped)


def _publish(complete: Path, target: Path, replaced: Path, overwrite: bool) -> None:
    if overwrite and os.path.lexists(target):
        os.rename(target, replaced)
    try:
        os.rename(complete, target)
    except OSError:
        if os.path.lexists(replaced):
            os.rename(replaced, target)
        raise
