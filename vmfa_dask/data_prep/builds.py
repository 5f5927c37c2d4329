"""Unfinished stores: ``TARGET.partial`` belongs to one process at a time, and records what it is made from.

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

from vmfa_dask.data_prep.source_files import changes

RECORD, PLAN, LOCK = "build.json", "plan.json", "build.lock"
"""Files in ``TARGET.partial`` that are not part of the store."""
WAIT_SECONDS = 3
"""Workers of a killed call end within this time, and with them its lock."""


def partial_of(target: Path) -> Path:
    """Name the folder that holds a store until it is complete.

    Parameters
    ----------
    target : path
        Where the store appears when it is complete.

    Returns
    -------
    path
        ``TARGET.partial``, in the same folder.
    """
    return target.with_name(target.name + ".partial")


@contextmanager
def in_work(target: Path) -> Iterator[Path]:
    """Lock ``TARGET.partial`` for this process, creating it if necessary; remove it afterwards if it is empty.

    Parameters
    ----------
    target : path
        The store, absolute.

    Yields
    ------
    path
        The folder ``TARGET.partial``.

    Raises
    ------
    FileExistsError
        If another process is writing the target, or a file or link has the name of the folder.
    ValueError
        If the folder was made by something else.
    """
    partial = partial_of(target)
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        raise FileExistsError(f"{partial} is in the way and was not made by this command; remove it first")
    if partial.is_dir() and not (partial / LOCK).exists() and any(partial.iterdir()) and not _is_begun(partial):
        raise ValueError(f"{partial} is in the way and was not made by this command; remove it first")
    partial.mkdir(exist_ok=True)
    lock = FileLock(partial / LOCK)
    try:
        lock.acquire(timeout=WAIT_SECONDS)
    except (Timeout, FileNotFoundError):  # not found: the other process has just finished and renamed the folder
        raise FileExistsError(
            f"target {target} is being written by another process; wait until it has finished, or choose another target"
        ) from None
    try:
        if os.path.lexists(target) and not partial.is_dir():  # another process finished it while we waited
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
    """Rename a complete store to its target, and remove its record and lock.

    Parameters
    ----------
    partial : path
        The folder that `in_work` yields.
    target : path
        The store.
    """
    os.rename(partial, target)
    for name in (RECORD, LOCK):
        (target / name).unlink(missing_ok=True)


def begin(partial: Path, sources: Sequence[Mapping[str, Any]], options: Any) -> None:
    """Record what a store is made from, or compare it with the record of an earlier call.

    If the sources were changed before any row was written (a file was refused and then repaired), start over.

    Parameters
    ----------
    partial : path
        The folder that `in_work` yields.
    sources : sequence of mapping
        Fingerprints of the sources, see `source_files.file_fingerprint`.
    options : Any
        JSON values on which the rows depend.

    Raises
    ------
    ValueError
        If the store was begun from other sources or options, naming what changed; if the folder was made by something
        else.
    """
    record = {"sources": list(sources), "options": options}
    file = partial / RECORD
    if file.is_file():
        if _is_of_repaired_files(partial, read_record(file), record):
            for path in partial.iterdir():
                if path.name not in (LOCK, RECORD):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_record(file, record)
        require_same(partial, read_record(file), record)
        return
    if any(path.name not in (LOCK, f"{RECORD}.tmp") for path in partial.iterdir()):
        raise ValueError(f"{partial} is in the way and was not made by this command; remove it first")
    write_record(file, record)


def _is_of_repaired_files(partial: Path, before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    now = json.loads(json.dumps(record))
    if before == now or {**before, "sources": []} != {**now, "sources": []} or _holds_rows(partial):
        return False
    paths = [[source.get("path") for source in sources] for sources in (before["sources"], now["sources"])]
    return paths[0] == paths[1]


def _holds_rows(partial: Path) -> bool:
    """Whether the folder holds more than metadata."""
    metadata = ("zarr.json", LOCK, RECORD)
    return any(path.is_file() and not (path.name in metadata or path.suffix == ".tmp") for path in partial.rglob("*"))


def require_same(partial: Path, before: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Refuse an unfinished store that was begun from other sources or with other options.

    Parameters
    ----------
    partial : path
        Its folder.
    before : mapping
        The record of the earlier call, as read from its file.
    record : mapping
        The record of this call.

    Raises
    ------
    ValueError
        Naming what differs.
    """
    now = json.loads(json.dumps(record))  # as it would be read back, with lists for tuples
    if before == now:
        return
    try:
        difference = changes(before["sources"], now["sources"]) or "the options differ"
    except (KeyError, TypeError, AttributeError):
        difference = "its record was written by another version of this command"
    raise ValueError(f"{partial} was begun from other sources or options; remove it to start over ({difference})")


def require_unchanged(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> None:
    """Refuse sources that changed while they were read.

    Parameters
    ----------
    before, now : sequence of mapping
        Fingerprints of the same sources at the beginning and at the end of the call.

    Raises
    ------
    ValueError
        Naming up to three sources that changed, and in which way.
    """
    if difference := changes(before, now):
        raise ValueError(f"sources changed while they were read, {difference}; leave them unchanged and start over")


def read_record(file: Path) -> dict[str, Any]:
    """Read the record of an unfinished store.

    Parameters
    ----------
    file : path
        Written by `write_record`.

    Returns
    -------
    dict
        JSON values.

    Raises
    ------
    ValueError
        If the file is damaged.
    """
    try:
        record = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}); remove {file.parent} to start over") from error
    if not isinstance(record, dict):
        raise ValueError(f"{file} is damaged; remove {file.parent} to start over")
    return record


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write the record of an unfinished store atomically.

    Parameters
    ----------
    file : path
        The record.
    record : mapping
        JSON values.
    """
    unfinished = file.with_name(file.name + ".tmp")
    unfinished.write_text(json.dumps(record))
    os.replace(unfinished, file)
