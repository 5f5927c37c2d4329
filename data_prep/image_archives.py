"""Lists what tar and zip archives hold, without extracting anything and without following a link.

A member's name is a label in reports and never becomes a path. Archives whose checksums do not hold are refused as a
whole. Imports `image_entries`, `source_files`, `tar_cuts`, `tar_members`, `unpacking`, `zip_checks` and the
standard library.
"""

from __future__ import annotations

import io
import itertools
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data_prep.image_entries import Entry, base_name, digest_of, refusal_of
from data_prep.source_files import damage_named, file_fingerprint
from data_prep.tar_cuts import cuts
from data_prep.tar_members import TarMembers
from data_prep.unpacking import allowed_bytes, refuse_size
from data_prep.zip_checks import require_sound

MEMBERS_PER_PART = 4096
_DAMAGED = "is damaged or not a tar or zip archive"
_BLOCK = 2**20


@dataclass(frozen=True)
class Archive:
    """Members of a tar archive (plain or compressed), in the order of the archive.

    Attributes
    ----------
    path : Path
        The archive.
    start, stop : int or None
        Bytes at which the first member begins and at which one begins that is left out; None for the end.
    max_unpacked : int or None
        Bytes that it may unpack to; by default 1 GiB, or 100 times its size.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    max_unpacked: int | None = None

    def parts(self) -> list[Archive]:
        """Return ranges of the members; a compressed archive is read from its beginning to its end."""
        starts = cuts(self.path, MEMBERS_PER_PART)
        return [replace(self, start=a, stop=b) for a, b in itertools.pairwise([*starts, None]) if a is not None]

    def fingerprint(self) -> dict[str, Any]:
        """Return what tells the file from others."""
        return file_fingerprint(self.path)

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory, its bytes read in passing."""
        label, allowed, n_bytes = base_name(self.path), allowed_bytes(self.path, self.max_unpacked), 0
        with damage_named(self.path, _DAMAGED), self.path.open("rb") as file:
            archive = TarMembers(self.path, file, self.start, self.stop, allowed)
            for member in archive:
                refusal = refusal_of(member.isreg(), member.issym() or member.islnk(), member.size)
                n_bytes += 0 if refusal else member.size  # members with holes are larger than the archive
                if n_bytes > allowed:
                    raise refuse_size(self.path, allowed)
                yield Entry(label, member.name, None if refusal else archive.payload(member), refusal)


@dataclass(frozen=True)
class ZipArchive:
    """Members of a zip archive, in the order of its directory; with `members`, those of these names alone."""

    path: Path
    members: frozenset[str] | None = None
    max_unpacked: int | None = None

    def parts(self) -> list[ZipArchive]:
        """Return the archive alone."""
        return [self]

    def fingerprint(self) -> dict[str, Any]:
        """Return what tells the file from others, and the names of the members that are chosen."""
        chosen = {} if self.members is None else {"members": digest_of(sorted(self.members))}
        return file_fingerprint(self.path) | chosen

    def entries(self) -> Iterator[Entry]:
        """Yield one entry per member that is not a directory."""
        label, allowed = base_name(self.path), allowed_bytes(self.path, self.max_unpacked)
        with damage_named(self.path, _DAMAGED), zipfile.ZipFile(self.path) as archive:
            require_sound(archive)
            found = [(member, _refusal_in_zip(member)) for member in archive.infolist() if self._chooses(member)]
            if sum(member.file_size for member, refusal in found if not refusal) > allowed:
                raise refuse_size(self.path, allowed)
            for member, refusal in found:
                content: bytes | None = None
                if not refusal:
                    try:
                        content = _unpacked(archive, member)
                    except NotImplementedError as error:  # a compression that Python does not have
                        refusal = f"cannot be unpacked: {error}"
                yield Entry(label, member.filename, content, refusal)

    def _chooses(self, member: zipfile.ZipInfo) -> bool:
        return not member.is_dir() and (self.members is None or member.filename in self.members)


def _refusal_in_zip(member: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on a POSIX system
    if member.flag_bits & 1:
        return "encrypted"
    return refusal_of(kind in (0, stat.S_IFREG), kind == stat.S_IFLNK, member.file_size)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, no more than its header states, their checksum compared."""
    content, left = io.BytesIO(), member.file_size + 1  # one more, so that the end is reached and the checksum compared
    with archive.open(member) as stream:
        while left > 0 and (block := stream.read(min(left, _BLOCK))):
            left -= content.write(block)
    if content.tell() != member.file_size:
        raise zipfile.BadZipFile(
            f"member {member.filename!r} has {content.tell()} bytes, its header states {member.file_size}"
        )
    return content.getvalue()
