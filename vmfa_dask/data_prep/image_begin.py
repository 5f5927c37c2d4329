"""Begins a store of images, or resumes one after comparing its plan with that of the earlier call.

Imports `builds`, `image_decoding`, `image_plan` and the standard library.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vmfa_dask.data_prep.builds import LOCK, PLAN, read_record, require_same, write_record
from vmfa_dask.data_prep.image_decoding import decode, load_decoders
from vmfa_dask.data_prep.image_plan import Plan


def begin(partial: Path, plan: Plan, n_parts: Sequence[int]) -> tuple[tuple[int, ...], list[dict[str, Any]]]:
    """Record the plan of a store, or compare it with the record of an earlier call.

    A source of which nothing has been decoded yet, such as a damaged archive, may have been replaced in between.

    Parameters
    ----------
    partial : path
        The folder that `builds.in_work` yields.
    plan : Plan
        Which images become which rows.
    n_parts : sequence of int
        Number of parts of each source.

    Returns
    -------
    shape : tuple of int
        (height, width, channels) of each row.
    sources : list of dict
        Fingerprints of the sources.

    Raises
    ------
    ValueError
        If the folder was made by something else or from other sources or options; if no image can be read.
    """
    file, now = partial / PLAN, plan.description()
    sources: list[dict[str, Any]] = now["sources"]
    if not file.is_file():
        if any(path.name not in (f"{PLAN}.tmp", LOCK) for path in partial.iterdir()):
            raise ValueError(f"{partial} is in the way and was not made by this command; remove it first")
        shape = plan.shape or _first_shape(plan)
        write_record(file, {"plan": now, "shape": shape, "parts": list(n_parts)})
        return shape, sources
    record = read_record(file)
    before = record.get("plan")
    if before != now:
        if not _only_untouched_sources_differ(partial, record, now, n_parts):
            require_same(partial, before if isinstance(before, dict) else {}, now)
        if tuple(record["shape"]) != (plan.shape or _first_shape(plan)):
            raise ValueError(
                f"{partial} was begun from other sources or options; remove it to start over (the first image has "
                "another size)"
            )
        write_record(file, record | {"plan": now})
    for leftover in (partial / "parts").glob("*.tmp"):  # of tasks that were killed
        leftover.unlink(missing_ok=True)
    return tuple(record["shape"]), sources


def _only_untouched_sources_differ(
    partial: Path, record: Mapping[str, Any], now: Mapping[str, Any], n_parts: Sequence[int]
) -> bool:
    """Whether the plans differ only in sources of which no part has been decoded."""
    before = record.get("plan")
    if (partial / "store").exists() or not isinstance(before, dict) or record.get("parts") != list(n_parts):
        return False
    if {**before, "sources": []} != {**now, "sources": []}:
        return False
    starts = itertools.accumulate(n_parts, initial=0)
    for old, new, start, n in zip(before["sources"], now["sources"], starts, n_parts, strict=False):
        decoded = any((partial / "parts" / f"{k:07d}.json").exists() for k in range(start, start + n))
        if old["path"] != new["path"] or (old != new and decoded):
            return False
    return len(before["sources"]) == len(now["sources"])


def _first_shape(plan: Plan) -> tuple[int, ...]:
    load_decoders()
    first = ""
    for source in plan.sources:
        for entry in source.entries():
            for frame in decode(entry, plan.shaping):
                if frame.pixels is not None:
                    return frame.pixels.shape
                first = first or f"the first is {entry.name!r}: {frame.reason}"
    where = f"{plan.sources[0].path}" + (f" and {n - 1} more sources" if (n := len(plan.sources)) > 1 else "")
    raise ValueError(f"no image could be read from {where}; {first or 'there are no files'}")
