"""Lists what folders, tar and zip archives hold, without extracting anything and without following a link.

Owns the rules of what may be read: regular files up to `MAX_FILE_BYTES`. A member's name is a label in reports and
never becomes a path. Imports the standard library only.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 256 * 2**20
FILES_PER_PART = 4096
_ARCHIVE_ERRORS = (tarfile.TarError, zipfile.BadZipFile, EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Entry:
    """One candidate: the encoded image, or the reason why it must not be read.

    Attributes
    ----------
    source : str
        Base name of the source.
    key : str
        Name inside of the source, with slashes. It is a label: two members of one name are two entries.
    content : Path, bytes or None
        A file to open, the bytes of an archive member, or None when there is a `refusal`.
    refusal : str
        Empty when the content may be read.
    """

    source: str
    key: str
    content: Path | bytes | None
    refusal: str = ""

    @property
    def name(self) -> str:
        """Source and key, as reports call the entry."""
        return f"{self.source}/{self.key}"


@dataclass(frozen=True)
class Folder:
    """Files below a folder, given by their relative paths."""

    path: Path
    files: tuple[str, ...]

    def parts(self) -> list[Source]:
        """Return ranges of the files, each as a source of its own."""
        starts = range(0, len(self.files), FILES_PER_PART)
        return [Folder(self.path, self.files[start : start + FILES_PER_PART]) for start in starts]

    def fingerprint(self) -> list[Any]:
        """Return what tells this source from others, as JSON values: here its name and the names of its files."""
        return [base_name(self.path), len(self.files), _digest(self.files)]

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per file; links and special files come with a refusal."""
        label = base_name(self.path)
        for file in self.files:
            yield _file_entry(label, file, self.path / file)


@dataclass(frozen=True)
class FileList:
    """Files that a text names, one per line, from the text's folder on where they are relative.

    Attributes
    ----------
    path : Path
        The text. It is never held in memory.
    offset : int
        Byte at which the first line begins.
    n_lines : int or None
        Lines from there on; None for all.
    """

    path: Path
    offset: int = 0
    n_lines: int | None = None

    def parts(self) -> list[Source]:
        """Return ranges of the lines, each as a source of its own."""
        found: list[Source] = []
        with self.path.open("rb") as text:
            text.seek(self.offset)
            offset = self.offset
            while lines := list(itertools.islice(text, FILES_PER_PART)):
                found.append(FileList(self.path, offset, len(lines)))
                offset += sum(map(len, lines))
        return found

    def fingerprint(self) -> list[Any]:
        """Return name, size and time of the text."""
        return _file_fingerprint(self.path)

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per line that is not empty; links, special and missing files come with a refusal."""
        label, folder = base_name(self.path), self.path.parent
        with self.path.open("rb") as text:
            text.seek(self.offset)
            for line in itertools.islice(text, self.n_lines):
                if name := os.fsdecode(line.strip()):
                    yield _file_entry(label, name, folder / name)


@dataclass(frozen=True)
class Archive:
    """Members of a tar archive (plain or compressed), in the order of the archive."""

    path: Path

    def parts(self) -> list[Source]:
        """Return the archive alone, as it is read from its beginning to its end."""
        return [self]

    def fingerprint(self) -> list[Any]:
        """Return name, size and time of the file."""
        return _file_fingerprint(self.path)

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory, its bytes read in passing."""
        label = base_name(self.path)
        with _damage_named(self.path):
            for archive, member in _members(self.path):
                refusal = _refusal(member.isreg(), member.issym() or member.islnk(), member.size)
                content = None if refusal else _payload(archive, member)
                yield Entry(label, member.name, content, refusal)


@dataclass(frozen=True)
class ZipArchive:
    """Members of a zip archive, in the order of its directory; with `members`, those of these names alone."""

    path: Path
    members: frozenset[str] | None = None

    def parts(self) -> list[Source]:
        """Return the archive alone."""
        return [self]

    def fingerprint(self) -> list[Any]:
        """Return name, size and time of the file, and the names of the members that are chosen."""
        chosen = None if self.members is None else _digest(sorted(self.members))
        return [*_file_fingerprint(self.path), chosen]

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory; damage to one member is its refusal alone."""
        label = base_name(self.path)
        with _damage_named(self.path), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                if member.is_dir() or (self.members is not None and member.filename not in self.members):
                    continue
                refusal = _refusal_in_zip(member)
                content: bytes | None = None
                if not refusal:
                    try:
                        content = _unpacked(archive, member)
                    except (*_ARCHIVE_ERRORS, NotImplementedError) as error:
                        refusal = f"cannot be unpacked: {error}"
                yield Entry(label, member.filename, content, refusal)


Source = Folder | FileList | Archive | ZipArchive


def open_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Return one source per path, in the given order.

    Raises
    ------
    FileNotFoundError
        When a path does not exist.
    """
    return [_open_source(Path(path)) for path in paths]


def base_name(path: Path) -> str:
    """Return the last part of a path, also of one like `.` or `..`."""
    return Path(os.path.abspath(path)).name


def _open_source(path: Path) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"source {path} does not exist")
    if path.is_dir():
        return Folder(path, _files_below(path))
    return ZipArchive(path) if zipfile.is_zipfile(path) and not tarfile.is_tarfile(path) else Archive(path)


def _files_below(folder: Path) -> tuple[str, ...]:
    files = []
    for parent, folders, names in os.walk(folder, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        files += [Path(parent, name).relative_to(folder).as_posix() for name in names + links]
    return tuple(sorted(files))


def _file_entry(label: str, key: str, path: Path) -> Entry:
    try:
        status = path.lstat()
    except OSError as error:
        return Entry(label, key, None, f"cannot be found: {error.strerror}")
    refusal = _refusal(stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode), status.st_size)
    return Entry(label, key, None if refusal else path, refusal)


def _file_fingerprint(path: Path) -> list[Any]:
    status = path.stat()
    return [base_name(path), status.st_size, status.st_mtime_ns]


def _digest(names: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(os.fsencode(name) + b"\0")
    return digest.hexdigest()


def _raise(error: OSError) -> None:
    raise error


def _refusal(regular: bool, link: bool, size_bytes: int) -> str:
    if link:
        return "a link, not followed"
    if not regular:
        return "not a regular file"
    if size_bytes > MAX_FILE_BYTES:
        return f"{size_bytes} bytes, more than the limit of {MAX_FILE_BYTES}"
    return ""


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except _ARCHIVE_ERRORS as error:
        raise ValueError(f"{path} is damaged or not a tar or zip archive: {error}") from error


def _members(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with tarfile.open(path, "r:*") as archive:
        while (member := archive.next()) is not None:
            # tarfile remembers every header it has read, about 1 GB for a million images.
            archive.members.clear()  # type: ignore[attr-defined]
            if not member.isdir():
                yield archive, member
        _check_end(archive)


def _refusal_in_zip(member: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on a POSIX system
    if member.flag_bits & 1:
        return "encrypted"
    return _refusal(kind in (0, stat.S_IFREG), kind == stat.S_IFLNK, member.file_size)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, no more than its header states, their checksum compared."""
    with archive.open(member) as stream:
        content = stream.read(member.file_size + 1)  # one more, so that the end is reached and the checksum looked at
    if len(content) != member.file_size:
        raise zipfile.BadZipFile(f"{len(content)} bytes, its header states {member.file_size}")
    return content


def _payload(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if not member.issparse() and archive.fileobj is not None:  # far faster than extractfile, for images of a kilobyte
        archive.fileobj.seek(member.offset_data)
        content: bytes = archive.fileobj.read(member.size)
        if len(content) < member.size:
            raise tarfile.ReadError(f"member {member.name!r} is cut: {len(content)} of {member.size} bytes")
        return content
    stream = archive.extractfile(member)
    if stream is None:
        raise tarfile.ReadError(f"member {member.name!r} cannot be read")
    with stream:
        return stream.read()


def _check_end(archive: tarfile.TarFile) -> None:
    # tarfile takes a damaged or cut header behind the first member for the end of the archive.
    if archive.fileobj is None:
        return
    archive.fileobj.seek(archive.offset)
    block = archive.fileobj.read(tarfile.BLOCKSIZE)
    if block and (len(block) < tarfile.BLOCKSIZE or block.strip(b"\0")):
        raise tarfile.ReadError(f"no valid header at byte {archive.offset}")
