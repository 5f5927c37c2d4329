"""Begins a store of images, or goes on with one: what it is made of is compared with what an earlier call wrote down.

Imports `builds`, `image_decoding`, `image_plan` and the standard library.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.builds import LOCK, PLAN, read_record, require_same, write_record
from data_prep.image_decoding import decode, load_decoders
from data_prep.image_plan import Plan


def begin(partial: Path, plan: Plan, n_parts: Sequence[int]) -> tuple[tuple[int, ...], list[dict[str, Any]]]:
    """Return the shape of the rows, and what the sources are recognised by.

    Parameters
    ----------
    partial : path
        The folder of the store in work.
    plan : Plan
        What becomes of which images.
    n_parts : sequence of int
        Of each source.

    Raises
    ------
    ValueError
        When the folder holds something else, or rows of other sources or options. A source of which nothing was decoded
        yet, such as an archive that was damaged, may have been replaced.
    """
    file, known = partial / PLAN, plan.description()
    sources: list[dict[str, Any]] = known["sources"]
    if not file.is_file():
        if any(path.name not in (f"{PLAN}.tmp", LOCK) for path in partial.iterdir()):
            raise ValueError(f"{partial} is in the way, and not of this command; remove it to begin")
        shape = plan.shape or _first_shape(plan)
        write_record(file, {"plan": known, "shape": shape, "parts": list(n_parts)})
        return shape, sources
    found = read_record(file)
    before = found.get("plan")
    if before != known:
        if not _only_new_sources_differ(partial, found, known, n_parts):
            require_same(partial, before if isinstance(before, dict) else {}, known)
        if tuple(found["shape"]) != (plan.shape or _first_shape(plan)):
            raise ValueError(f"{partial} was begun from other sources or options; remove it to begin anew (the first)")
        write_record(file, found | {"plan": known})
    for left in (partial / "parts").glob("*.tmp"):  # of tasks that were killed
        left.unlink(missing_ok=True)
    return tuple(found["shape"]), sources


def _only_new_sources_differ(
    partial: Path, found: Mapping[str, Any], known: Mapping[str, Any], n_parts: Sequence[int]
) -> bool:
    """Whether all that differs are sources of which no part is decoded."""
    before = found.get("plan")
    if (partial / "store").exists() or not isinstance(before, dict) or found.get("parts") != list(n_parts):
        return False
    if {**before, "sources": []} != {**known, "sources": []}:
        return False
    starts = itertools.accumulate(n_parts, initial=0)
    for old, new, start, n in zip(before["sources"], known["sources"], starts, n_parts, strict=False):
        decoded = any((partial / "parts" / f"{k:07d}.json").exists() for k in range(start, start + n))
        if old["path"] != new["path"] or (old != new and decoded):
            return False
    return len(before["sources"]) == len(known["sources"])


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
    raise ValueError(f"no image could be read from {where}; {first or 'no files are in there'}")
