"""Lists what tar and zip archives hold, without extracting anything and without following a link.

A member's name is a label in reports and never becomes a path. Imports `image_entries`,
`tar_cuts` and the standard library.
"""

from __future__ import annotations

import gzip
import itertools
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from data_prep.image_entries import Entry, base_name, digest_of, file_fingerprint, refusal_of
from data_prep.tar_cuts import cuts

MEMBERS_PER_PART = 4096
_ARCHIVE_ERRORS = (tarfile.TarError, zipfile.BadZipFile, EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Archive:
    """Members of a tar archive (plain or compressed), in the order of the archive.

    Attributes
    ----------
    path : Path
        The archive.
    start, stop : int or None
        Bytes at which the first member begins and at which one begins that is left out; None for the end.
    """

    path: Path
    start: int = 0
    stop: int | None = None

    def parts(self) -> list[Archive]:
        """Return ranges of the members; a compressed archive is read from its beginning to its end."""
        starts = cuts(self.path, MEMBERS_PER_PART)
        return [Archive(self.path, a, b) for a, b in itertools.pairwise([*starts, None]) if a is not None]

    def fingerprint(self) -> list[Any]:
        """Return name, size and time of the file."""
        return file_fingerprint(self.path)

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory, its bytes read in passing."""
        label = base_name(self.path)
        with _damage_named(self.path):
            for archive, member in _members(self.path, self.start, self.stop):
                refusal = refusal_of(member.isreg(), member.issym() or member.islnk(), member.size)
                content = None if refusal else _payload(archive, member)
                yield Entry(label, member.name, content, refusal)


@dataclass(frozen=True)
class ZipArchive:
    """Members of a zip archive, in the order of its directory; with `members`, those of these names alone."""

    path: Path
    members: frozenset[str] | None = None

    def parts(self) -> list[ZipArchive]:
        """Return the archive alone."""
        return [self]

    def fingerprint(self) -> list[Any]:
        """Return name, size and time of the file, and the names of the members that are chosen."""
        chosen = None if self.members is None else digest_of(sorted(self.members))
        return [*file_fingerprint(self.path), chosen]

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


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except _ARCHIVE_ERRORS as error:
        reason = " ".join(str(error).split())  # tarfile lists on several lines what it has tried
        raise ValueError(f"{path} is damaged or not a tar or zip archive: {reason}") from error


class _Header(tarfile.TarInfo):
    """Reads what is asked of a regular file's header, in a third of the time; all other headers as `tarfile` does.

    With images of a kilobyte, `tarfile` takes half as long for the headers as Pillow for the images.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        size, checksum = (buf[field].strip(b" \0") for field in (_SIZE, _CHECKSUM))
        # Sizes in other notations, damage and the end of the archive are left to tarfile.
        if buf[_TYPE] == tarfile.REGTYPE and _is_octal(size) and _is_octal(checksum):
            if sum(buf) - sum(buf[_CHECKSUM]) + 8 * ord(" ") == int(checksum, 8):
                name, prefix = (buf[field].partition(b"\0")[0] for field in (_NAME, _PREFIX))
                path = bytes(prefix + b"/" + name if prefix else name)
                header = cls(path.decode(encoding, errors))
                header.size = int(size, 8)
                return header
        return super().frombuf(buf, encoding, errors)


_NAME, _SIZE, _CHECKSUM, _TYPE, _PREFIX = slice(100), slice(124, 136), slice(148, 156), slice(156, 157), slice(345, 500)


def _is_octal(text: bytes | bytearray) -> bool:
    return text.isdigit() and not text.translate(None, b"01234567")


def _members(path: Path, start: int, stop: int | None) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with path.open("rb") as file, _opened(path, file, start) as archive:
        while (member := archive.next()) is not None:
            if stop is not None and member.offset >= stop:
                return
            # tarfile remembers every header it has read, about 1 GB for a million images.
            archive.members.clear()  # type: ignore[attr-defined]
            if not member.isdir():
                yield archive, member
        _check_end(archive)


def _opened(path: Path, file: BinaryIO, start: int) -> tarfile.TarFile:
    """The archive from a byte on, at which a member begins; from the beginning, its kind is found out."""
    if start == 0:
        return tarfile.open(path, "r:*", tarinfo=_Header)
    file.seek(start)
    return tarfile.open(fileobj=file, mode="r:", tarinfo=_Header)


def _refusal_in_zip(member: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on a POSIX system
    if member.flag_bits & 1:
        return "encrypted"
    return refusal_of(kind in (0, stat.S_IFREG), kind == stat.S_IFLNK, member.file_size)


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
