"""Lists what folders, tar and zip archives hold, without extracting anything and without following a link.

Owns the rules of what may be read: regular files up to `MAX_FILE_BYTES`. A member's name is a label in reports and
never becomes a path. Imports the standard library only.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 256 * 2**20
_ARCHIVE_ERRORS = (tarfile.TarError, zipfile.BadZipFile, EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Entry:
    """One candidate: the encoded image, or the reason why it must not be read.

    Attributes
    ----------
    name : str
        Base name of the source and position inside of it, with slashes.
    content : Path, bytes or None
        A file to open, the bytes of an archive member, or None when there is a `refusal`.
    refusal : str
        Empty when the content may be read.
    """

    name: str
    content: Path | bytes | None
    refusal: str = ""


@dataclass(frozen=True)
class Folder:
    """Regular files below a folder, listed once on construction, sorted by their relative path."""

    path: Path
    files: tuple[str, ...]

    def count(self) -> int:
        """Return how many entries there are."""
        return len(self.files)

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per file; links and special files come with a refusal."""
        label = base_name(self.path)
        for file in self.files:
            path = self.path / file
            status = path.lstat()
            refusal = _refusal(stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode), status.st_size)
            yield Entry(f"{label}/{file}", None if refusal else path, refusal)


@dataclass(frozen=True)
class Archive:
    """Members of a tar archive (plain or compressed), in the order of the archive."""

    path: Path

    def count(self) -> int:
        """Return how many entries there are, from the headers alone."""
        with _damage_named(self.path):
            return sum(1 for _ in _members(self.path))

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory, its bytes read in passing."""
        label = base_name(self.path)
        with _damage_named(self.path):
            for archive, member in _members(self.path):
                refusal = _refusal(member.isreg(), member.issym() or member.islnk(), member.size)
                content = None if refusal else _payload(archive, member)
                yield Entry(f"{label}/{member.name}", content, refusal)


@dataclass(frozen=True)
class ZipArchive:
    """Members of a zip archive, in the order of its directory."""

    path: Path

    def count(self) -> int:
        """Return how many entries there are."""
        with _damage_named(self.path), zipfile.ZipFile(self.path) as archive:
            return sum(not member.is_dir() for member in archive.infolist())

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory; damage to one member is its refusal alone."""
        label = base_name(self.path)
        with _damage_named(self.path), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                refusal = _refusal_in_zip(member)
                content: bytes | None = None
                if not refusal:
                    try:
                        content = _unpacked(archive, member)
                    except (*_ARCHIVE_ERRORS, NotImplementedError) as error:
                        refusal = f"cannot be unpacked: {error}"
                yield Entry(f"{label}/{member.filename}", content, refusal)


Source = Folder | Archive | ZipArchive


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
