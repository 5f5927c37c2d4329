"""Finds the files of a data set where the user has them. Imports `source_files` and the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from vmfa_dask.data_prep.source_files import require_readable


def existing(sources: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Make the sources absolute paths.

    Parameters
    ----------
    sources : sequence of path
        Files and folders as the user named them.

    Returns
    -------
    list of path
        The same, absolute.

    Raises
    ------
    FileNotFoundError
        Naming the first that does not exist.
    ValueError
        Naming one that is neither a file nor a folder.
    """
    paths = [Path(source).absolute() for source in sources]
    for path in paths:
        require_readable(path)
    return paths


def find(sources: Iterable[Path], names: Sequence[str]) -> Path | None:
    """Find a file or folder by its name.

    Parameters
    ----------
    sources : iterable of path
        Each may be the file itself, hold it, or hold a folder that does.
    names : sequence of str
        Names that it may have, tried in this order.

    Returns
    -------
    path or None
        The first match; None if there is none.
    """
    paths = list(sources)
    for name in names:
        for source in paths:
            for path in [source, source / name, *sorted(source.glob(f"*/{name}"))]:
                if path.name == name and path.exists():
                    require_readable(path)
                    return path
    return None


def find_all(data_set: str, sources: Iterable[Path], wanted: Sequence[Sequence[str]]) -> list[Path]:
    """Find several files, all of which must exist.

    Parameters
    ----------
    data_set : str
        Its name, for errors.
    sources : iterable of path
        As in `find`.
    wanted : sequence of sequence of str
        Per file the names that it may have.

    Returns
    -------
    list of path
        One per entry of `wanted`.

    Raises
    ------
    ValueError
        Naming all files that are missing.
    """
    roots = list(sources)
    paths = [find(roots, names) for names in wanted]
    missing = [" or ".join(names) for names, path in zip(wanted, paths, strict=True) if path is None]
    if missing:
        raise ValueError(f"{data_set}: not in {', '.join(map(str, roots))}: {'; '.join(missing)}")
    return [path for path in paths if path is not None]


def matching(sources: Iterable[Path], pattern: str) -> list[Path]:
    """Find all files whose names match a pattern.

    Parameters
    ----------
    sources : iterable of path
        Files, or folders that hold them.
    pattern : str
        As in `pathlib.Path.glob`.

    Returns
    -------
    list of path
        In the order of the sources, those of a folder sorted by name.
    """
    paths: list[Path] = []
    for source in sources:
        if source.is_dir():
            paths += sorted(path for path in source.glob(pattern) if path.is_file())
        elif source.match(pattern):
            paths.append(source)
    return paths
