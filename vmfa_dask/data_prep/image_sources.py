"""Opens sources of images: folders, single files, texts that name files, tar and zip archives.

Nothing is extracted and no link is followed. A source yields entries in a fixed order, and cuts itself into parts that
together yield the same entries. Imports `image_archives`, `image_entries`, `source_files`, `tar_members` and the
standard library.
"""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vmfa_dask.data_prep.image_archives import Archive, ZipArchive
from vmfa_dask.data_prep.image_entries import Entry, base_name, file_entry
from vmfa_dask.data_prep.source_files import file_fingerprint, files_fingerprint, require_readable
from vmfa_dask.data_prep.tar_members import is_tar

FILES_PER_PART = 4096
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Folder:
    """Files below a folder.

    Parameters
    ----------
    path : path
        The folder itself; a link to it was followed.
    files : tuple of str
        Their paths relative to the folder, in order.
    """

    path: Path
    files: tuple[str, ...]

    def parts(self) -> list[Source]:
        """Cut the source into ranges of files.

        Returns
        -------
        list of Source
            Each with up to `FILES_PER_PART` files.
        """
        starts = range(0, len(self.files), FILES_PER_PART)
        return [Folder(self.path, self.files[start : start + FILES_PER_PART]) for start in starts]

    def fingerprint(self) -> dict[str, Any]:
        """Identify the files by names, sizes, times and checksums, as JSON values."""
        return files_fingerprint(self.path, self.path, self.files)

    def entries(self) -> Iterator[Entry]:
        """Look at each file.

        Yields
        ------
        Entry
            One per file; links and special files are refused.
        """
        label = base_name(self.path)
        for file in self.files:
            yield file_entry(label, file, self.path / file)


@dataclass(frozen=True)
class FileList:
    """Files that a text names, one per line; paths are relative to the folder of the text.

    Parameters
    ----------
    path : path
        The text, which may be large: it is never held in memory.
    offset : int
        Byte at which the first line begins.
    n_lines : int, optional
        Number of lines from there; by default all.
    """

    path: Path
    offset: int = 0
    n_lines: int | None = None

    def parts(self) -> list[Source]:
        """Cut the source into ranges of lines.

        Returns
        -------
        list of Source
            Each with up to `FILES_PER_PART` lines.
        """
        ranges: list[Source] = []
        with self.path.open("rb") as text:
            text.seek(self.offset)
            offset = self.offset
            while lines := list(itertools.islice(text, FILES_PER_PART)):
                ranges.append(FileList(self.path, offset, len(lines)))
                offset += sum(map(len, lines))
        return ranges

    def fingerprint(self) -> dict[str, Any]:
        """Identify the text and the files that it names, as JSON values."""
        with self.path.open("rb") as text:
            names = (os.fsdecode(line.strip()) for line in text)
            named = files_fingerprint(self.path, self.path.parent, names)
        return file_fingerprint(self.path) | {"content of its files": named["checksum"]}

    def entries(self) -> Iterator[Entry]:
        """Look at each file.

        Yields
        ------
        Entry
            One per line that is not empty; links, special and missing files are refused.
        """
        label, folder = base_name(self.path), self.path.parent
        with self.path.open("rb") as text:
            text.seek(self.offset)
            for line in itertools.islice(text, self.n_lines):
                if name := os.fsdecode(line.strip()):
                    yield file_entry(label, name, folder / name)


Source = Folder | FileList | Archive | ZipArchive


def open_sources(paths: Sequence[str | os.PathLike[str]], max_unpacked: int | None = None) -> list[Source]:
    """Open folders, archives and image files.

    Parameters
    ----------
    paths : sequence of path
        In the order of rows.
    max_unpacked : int, optional
        Limit per archive, as in `Archive`.

    Returns
    -------
    list of Source
        One per folder, per archive, and per run of consecutive image files in one folder.

    Raises
    ------
    FileNotFoundError
        If a path does not exist.
    ValueError
        If it is a FIFO, a device or a socket.
    """
    sources: list[Source] = []
    for folder, run in itertools.groupby(map(Path, paths), _folder_of_image):
        if folder is None:
            sources += [_open_source(path, max_unpacked) for path in run]
        else:
            sources.append(Folder(folder, tuple(path.name for path in run)))
    return sources


def _folder_of_image(path: Path) -> Path | None:
    """The folder of an image file, which its ending tells; None for anything else."""
    return path.parent if path.suffix.lower() in IMAGE_ENDINGS and path.is_file() else None


def _open_source(path: Path, max_unpacked: int | None) -> Source:
    require_readable(path)
    if path.is_dir():
        return Folder(path, _files_below(path))
    is_zip = zipfile.is_zipfile(path) and not is_tar(path)
    return ZipArchive(path, None, max_unpacked) if is_zip else Archive(path, max_unpacked=max_unpacked)


def _files_below(folder: Path) -> tuple[str, ...]:
    files = []
    for parent, folders, names in os.walk(folder, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        files += [Path(parent, name).relative_to(folder).as_posix() for name in names + links]
    return tuple(sorted(files))


def _raise(error: OSError) -> None:
    raise error
