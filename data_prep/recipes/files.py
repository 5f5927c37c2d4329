"""Finds the files of a data set where the user has them. Imports `source_files` and the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from data_prep.source_files import require_readable


def existing(sources: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the sources as absolute paths.

    Raises
    ------
    FileNotFoundError
        Naming the first that does not exist.
    """
    paths = [Path(source).absolute() for source in sources]
    for path in paths:
        require_readable(path)
    return paths


def find(sources: Iterable[Path], names: Sequence[str]) -> Path | None:
    """Return the first file or folder of one of these names: a source itself, in it, or in a folder of it.

    Names are tried in their order.
    """
    places = list(sources)
    for name in names:
        for source in places:
            for path in [source, source / name, *sorted(source.glob(f"*/{name}"))]:
                if path.name == name and path.exists():
                    require_readable(path)
                    return path
    return None


def find_all(data_set: str, sources: Iterable[Path], wanted: Sequence[Sequence[str]]) -> list[Path]:
    """Return one path per entry of `wanted`, which gives the names that a file may have.

    Raises
    ------
    ValueError
        Naming all that are missing.
    """
    places = list(sources)
    found = [find(places, names) for names in wanted]
    missing = [" or ".join(names) for names, path in zip(wanted, found, strict=True) if path is None]
    if missing:
        raise ValueError(f"{data_set}: not in {', '.join(map(str, places))}: {'; '.join(missing)}")
    return [path for path in found if path is not None]


def matching(sources: Iterable[Path], pattern: str) -> list[Path]:
    """Return all files whose names match: sources themselves, or files of source folders, in order of their names."""
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            found += sorted(path for path in source.glob(pattern) if path.is_file())
        elif source.match(pattern):
            found.append(source)
    return found
