"""Lists what tar and zip archives hold, without extracting anything and without following a link.

A member's name is a label in reports and never becomes a path. An archive with a wrong checksum is refused as a whole.
Imports `image_entries`, `source_files`, `tar_cuts`, `tar_members`, `unpacking`, `zip_checks` and the standard library.
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

from vmfa_dask.data_prep.image_entries import Entry, base_name, digest_of, refusal_of
from vmfa_dask.data_prep.source_files import damage_named, file_fingerprint
from vmfa_dask.data_prep.tar_cuts import cuts
from vmfa_dask.data_prep.tar_members import TarMembers
from vmfa_dask.data_prep.unpacking import allowed_bytes, refuse_size
from vmfa_dask.data_prep.zip_checks import require_sound

MEMBERS_PER_PART = 4096
_DAMAGED = "is damaged or not a tar or zip archive"
_BLOCK = 2**20


@dataclass(frozen=True)
class Archive:
    """Members of a tar archive (plain or compressed), in the order of the archive.

    Parameters
    ----------
    path : path
        The archive: plain, or compressed by gzip, bzip2, xz or lzma.
    start : int
        Byte at which the first member begins.
    stop : int, optional
        Byte at which the first member that is left out begins; by default none is.
    max_unpacked : int, optional
        Largest size in bytes that it may unpack to; by default 1 GiB, or 100 times its own size if that is more.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    max_unpacked: int | None = None

    def parts(self) -> list[Archive]:
        """Cut the archive into ranges of members.

        Returns
        -------
        list of Archive
            In order; a compressed archive is one part, as it can only be read from its beginning to its end.
        """
        starts = cuts(self.path, MEMBERS_PER_PART)
        return [replace(self, start=a, stop=b) for a, b in itertools.pairwise([*starts, None]) if a is not None]

    def fingerprint(self) -> dict[str, Any]:
        """Identify the file by its path, size, time and checksum, as JSON values."""
        return file_fingerprint(self.path)

    def entries(self) -> Iterator[Entry]:
        """Read the archive from its beginning.

        Yields
        ------
        Entry
            One per member that is not a directory, in order.

        Raises
        ------
        ValueError
            If the archive is damaged or unpacks to more than `max_unpacked`.
        """
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
    """Members of a zip archive, in the order of its directory.

    Parameters
    ----------
    path : path
        The archive, which is read where it is.
    members : frozenset of str, optional
        Names of the members that are read; by default all.
    max_unpacked : int, optional
        As in `Archive`.
    """

    path: Path
    members: frozenset[str] | None = None
    max_unpacked: int | None = None

    def parts(self) -> list[ZipArchive]:
        """Return the archive as its only part."""
        return [self]

    def fingerprint(self) -> dict[str, Any]:
        """Identify the file and the chosen members, as JSON values."""
        members = {} if self.members is None else {"members": digest_of(sorted(self.members))}
        return file_fingerprint(self.path) | members

    def entries(self) -> Iterator[Entry]:
        """Read the chosen members, as in `Archive.entries`.

        Raises
        ------
        ValueError
            If the archive is damaged or unpacks to more than `max_unpacked`.
        """
        label, allowed = base_name(self.path), allowed_bytes(self.path, self.max_unpacked)
        with damage_named(self.path, _DAMAGED), zipfile.ZipFile(self.path) as archive:
            require_sound(archive)
            chosen = [(member, _refusal_in_zip(member)) for member in archive.infolist() if self._chooses(member)]
            if sum(member.file_size for member, refusal in chosen if not refusal) > allowed:
                raise refuse_size(self.path, allowed)
            for member, refusal in chosen:
                content: bytes | None = None
                if not refusal:
                    try:
                        content = _unpacked(archive, member)
                    except NotImplementedError as error:  # a compression method that Python lacks
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
    """The bytes of a member, never more than its header states; the checksum is compared."""
    content, left = io.BytesIO(), member.file_size + 1  # the checksum is compared when the end is reached
    with archive.open(member) as stream:
        while left > 0 and (block := stream.read(min(left, _BLOCK))):
            left -= content.write(block)
    if content.tell() != member.file_size:
        raise zipfile.BadZipFile(
            f"member {member.filename!r} has {content.tell()} bytes, its header states {member.file_size}"
        )
    return content.getvalue()
