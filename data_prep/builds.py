"""Stores in work: ``TARGET.partial`` belongs to one process at a time, and says what it is made of.

Imports `source_files` and filelock.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from data_prep.source_files import changes

RECORD, PLAN, LOCK = "build.json", "plan.json", "build.lock"
"""What lies in the folder of a store in work beside the store."""
WAIT_SECONDS = 3
"""Processes of a call that was killed hold its lock for so long at most."""


def partial_of(target: Path) -> Path:
    """Where a target lies until it is complete."""
    return target.with_name(target.name + ".partial")


@contextmanager
def in_work(target: Path) -> Iterator[Path]:
    """Yield ``TARGET.partial``, a folder, which no other process writes to meanwhile; an empty one is removed again.

    Raises
    ------
    FileExistsError
        When another process writes to it, or something else is in its place.
    """
    partial = partial_of(target)
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        raise FileExistsError(f"{partial} is in the way, and not of this command; remove it to begin")
    if partial.is_dir() and not (partial / LOCK).exists() and any(partial.iterdir()) and not _is_begun(partial):
        raise ValueError(f"{partial} is in the way, and not of this command; remove it to begin")
    partial.mkdir(exist_ok=True)
    lock = FileLock(partial / LOCK)
    try:
        lock.acquire(timeout=WAIT_SECONDS)
    except (Timeout, FileNotFoundError):  # the folder is renamed when the other process is done
        raise FileExistsError(
            f"target {target} is being written by another process; wait for its end, or choose another target"
        ) from None
    try:
        if os.path.lexists(target) and not partial.is_dir():  # finished by another process before the lock was had
            raise FileExistsError(f"target {target} exists; another process has just written it")
        yield partial
    finally:
        lock.release()
        _tidy(partial)


def _is_begun(partial: Path) -> bool:
    return any(path.name.startswith((RECORD, PLAN)) for path in partial.iterdir())


def _tidy(partial: Path) -> None:
    """Remove a folder in which nothing but the lock is left."""
    with suppress(OSError):
        if all(path.name == LOCK for path in partial.iterdir()):
            (partial / LOCK).unlink(missing_ok=True)
            partial.rmdir()


def finish(partial: Path, target: Path) -> None:
    """Rename a complete store to its target, and remove from it what only a store in work needs."""
    os.rename(partial, target)
    for name in (RECORD, LOCK):
        (target / name).unlink(missing_ok=True)


def begin(partial: Path, sources: Sequence[Mapping[str, Any]], options: Any) -> None:
    """Write down what a store is made of, or compare it with what an earlier call has written down.

    Where files were changed before a row of them was written, the store is begun anew: they were refused and mended.

    Parameters
    ----------
    partial : path
        The folder of the store in work.
    sources : sequence of mapping
        Fingerprints, see `source_files`.
    options : Any
        JSON values.

    Raises
    ------
    ValueError
        When the store was begun from other sources or options, naming what changed, or by something else.
    """
    record = {"sources": list(sources), "options": options}
    file = partial / RECORD
    if file.is_file():
        found = read_record(file)
        if _is_of_mended_files(partial, found, record):
            for path in partial.iterdir():
                if path.name not in (LOCK, RECORD):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_record(file, record)
        require_same(partial, read_record(file), record)
        return
    if any(path.name not in (LOCK, f"{RECORD}.tmp") for path in partial.iterdir()):
        raise ValueError(f"{partial} is in the way, and not of this command; remove it to begin")
    write_record(file, record)


def _is_of_mended_files(partial: Path, found: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    known = json.loads(json.dumps(record))
    if found == known or {**found, "sources": []} != {**known, "sources": []} or _holds_rows(partial):
        return False
    before = found["sources"]
    paths = [[source.get("path") for source in sources] for sources in (before, known["sources"])]
    return paths[0] == paths[1]


def _holds_rows(partial: Path) -> bool:
    """Whether there is more than descriptions of what is to be written."""
    empty = ("zarr.json", LOCK, RECORD)
    return any(path.is_file() and not (path.name in empty or path.suffix == ".tmp") for path in partial.rglob("*"))


def require_same(partial: Path, found: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Refuse a store in work that was begun from other sources or with other options."""
    known = json.loads(json.dumps(record))  # as it is read back, tuples being lists
    if found == known:
        return
    try:
        what = changes(found["sources"], known["sources"]) or "the options differ"
    except (KeyError, TypeError, AttributeError):
        what = "its record is of another version of this command"
    raise ValueError(f"{partial} was begun from other sources or options; remove it to begin anew ({what})")


def require_unchanged(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> None:
    """Refuse sources that changed while they were read."""
    if what := changes(before, now):
        raise ValueError(f"sources changed while they were read, {what}; leave them as they are and begin anew")


def read_record(file: Path) -> dict[str, Any]:
    """Read what is written down about a store in work."""
    try:
        found = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}); remove {file.parent} to begin anew") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} is damaged; remove {file.parent} to begin anew")
    return found


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record whole."""
    unfinished = file.with_name(file.name + ".tmp")
    unfinished.write_text(json.dumps(record))
    os.replace(unfinished, file)
