"""Finds files of rows: single files, and folders of parts as Spark, Dask and others write them.

Imports `source_files` and the standard library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vmfa_dask.data_prep.source_files import require_readable

FORMATS = {".npy": "NumPy", ".h5": "HDF5", ".hdf5": "HDF5", ".parquet": "Parquet", ".pq": "Parquet"}
_OTHER_FOLDERS = {
    "_delta_log": "a table of Delta Lake, whose log says which of its files count; export it to a folder of Parquet",
    ".hoodie": "a table of Hudi, whose log says which of its files count; export it to a folder of Parquet",
    "zarr.json": "a Zarr store, which fits read as it is",
    ".zarray": "a Zarr store, which fits read as it is",
    ".zgroup": "a Zarr store, which fits read as it is",
}


class SourceFile(NamedTuple):
    """A file of rows.

    Parameters
    ----------
    path : path
        Absolute.
    key : str
        Its name, or its path relative to the source if that is a folder; the key of test splits.
    in_folder : bool
        Whether the source is a folder.
    """

    path: Path
    key: str
    in_folder: bool

    @property
    def format(self) -> str:
        """The format, by the ending of the name; empty if unknown."""
        return FORMATS.get(self.path.suffix.lower(), "")

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Names of columns that only the names of its folders hold, as in ``year=2020/part-0.parquet``."""
        return tuple(part.partition("=")[0] for part in Path(self.key).parts[:-1] if "=" in part)


def find_files(sources: Sequence[Path]) -> list[SourceFile]:
    """Find the files of all sources.

    Hidden files of a folder and those whose names begin with an underscore (``_SUCCESS``) are left out.

    Parameters
    ----------
    sources : sequence of path
        Files and folders.

    Returns
    -------
    list of SourceFile
        In the order of the sources, those of a folder in the natural order of their paths.

    Raises
    ------
    FileNotFoundError
        If a source does not exist.
    ValueError
        If a file has an unknown format, or a folder holds several formats or none.
    """
    return [file for source in sources for file in _files_of(source)]


def _files_of(source: Path) -> list[SourceFile]:
    require_readable(source)
    if source.is_dir():
        return _files_in(source)
    file = SourceFile(source.absolute(), source.name, in_folder=False)
    if not file.format:
        raise ValueError(f"source {source}: expected a file that ends with one of {', '.join(FORMATS)}, or a folder")
    return [file]


def _files_in(folder: Path) -> list[SourceFile]:
    for marker, meaning in _OTHER_FOLDERS.items():
        if (folder / marker).exists():
            raise ValueError(f"source {folder} is {meaning}")
    names = sorted(_names_below(folder), key=natural_order)
    files = [SourceFile((folder / name).absolute(), name, in_folder=True) for name in names]
    if not files:
        raise ValueError(f"source {folder} holds no files that end with one of {', '.join(FORMATS)}")
    for file in files:
        if not file.format:
            raise ValueError(
                f"source {folder} holds {file.key}, which does not end with one of {', '.join(FORMATS)}; move it, or "
                "name the files themselves"
            )
        if file.format != files[0].format:
            raise ValueError(
                f"source {folder} holds {files[0].key} ({files[0].format}) and {file.key} ({file.format}), expected "
                "files of one format; name the files themselves"
            )
        require_readable(file.path)
    return files


def _names_below(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder, onerror=_raise):
        # A folder of a partition counts even if the name of its column begins with an underscore.
        folders[:] = [name for name in folders if not _is_hidden(name) or ("=" in name and name[0] != ".")]
        for name in folders:
            if os.path.islink(os.path.join(parent, name)):
                raise ValueError(f"source {folder}: {os.path.join(parent, name)} is a link to a folder, not followed")
        for name in names:
            if not _is_hidden(name):
                yield Path(parent, name).relative_to(folder).as_posix()


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".crc")


def natural_order(name: str) -> list[list[str | int]]:
    """Make a sort key by which ``part.2`` comes before ``part.10``.

    Parameters
    ----------
    name : str
        A path with slashes.

    Returns
    -------
    list
        Names whose numbers have equally many digits sort as strings do.
    """
    parts = [re.split("([0-9]+)", part) for part in name.split("/")]
    return [[int(piece) if k % 2 else piece for k, piece in enumerate(part)] for part in parts] + [[name]]


def _raise(error: OSError) -> None:
    raise error
