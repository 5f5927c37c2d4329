"""Compressed streams, unpacked up to a limit and read to their very end, where their checksums are.

Imports the standard library only.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

FREE_BYTES, FREE_RATIO = 2**30, 100
"""An archive may unpack to this size, or to this multiple of its own size if that is more."""
_PACKED, _UNPACKED = 2**16, 2**18
_KEPT = 2**12
"""Number of bytes that can be read again, as tarfile reads headers twice."""
_LZMA_MEMORY = 192 * 2**20
_MAGICS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x5d\0\0": "lzma"}


def compression_of(head: bytes) -> str:
    """Recognise the compression of a file.

    Parameters
    ----------
    head : bytes
        Its first bytes, at least 6.

    Returns
    -------
    str
        ``"gzip"``, ``"bzip2"``, ``"xz"`` or ``"lzma"``; empty for any other file.
    """
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), "")


def allowed_bytes(path: Path, stated: int | None) -> int:
    """Determine how many bytes an archive may unpack to.

    Parameters
    ----------
    path : path
        The archive.
    stated : int, optional
        The limit that the caller set.

    Returns
    -------
    int
        That limit; by default 1 GiB, or 100 times the size of the archive if that is more.
    """
    return max(FREE_BYTES, FREE_RATIO * path.stat().st_size) if stated is None else stated


def refuse_size(path: Path, allowed: int) -> ValueError:
    """Make the error for an archive that unpacks to too much.

    Parameters
    ----------
    path : path
        The archive.
    allowed : int
        The limit in bytes.

    Returns
    -------
    ValueError
        To be raised.
    """
    return ValueError(
        f"{path} unpacks to more than {allowed:,} bytes (by default 1 GiB, or {FREE_RATIO} times its size if that "
        "is more); if that is expected, set max_unpacked (--max-unpacked) in bytes"
    )


class Unpacked:
    """Bytes of a compressed file, for readers that move forward.

    Streams that follow one another count as one, as in gzip and xz themselves. Only zeros may follow the last one.

    Parameters
    ----------
    path : path
        The name of the file, for errors.
    file : binary file
        The same file, opened at the beginning of the first stream.
    kind : {"gzip", "bzip2", "xz", "lzma"}
        The compression.
    allowed : int
        Largest number of bytes that it may unpack to.
    """

    def __init__(self, path: Path, file: BinaryIO, kind: str, allowed: int) -> None:
        self._blocks = _blocks(path, file, kind, allowed)
        self._block, self._start, self._position = b"", 0, 0

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._position

    def seek(self, offset: int) -> int:
        """Move forward, or up to some 4 KiB back.

        Parameters
        ----------
        offset : int
            In the unpacked bytes; after their end nothing can be read.

        Returns
        -------
        int
            The same offset.

        Raises
        ------
        io.UnsupportedOperation
            If these bytes are no longer in memory.
        """
        if offset < self._start:
            raise io.UnsupportedOperation(f"byte {offset} has passed already")
        self._position = offset
        return offset

    def read(self, n_bytes: int) -> bytes:
        """Read bytes from the current offset.

        Parameters
        ----------
        n_bytes : int
            How many.

        Returns
        -------
        bytes
            Fewer only at the end.

        Raises
        ------
        ValueError
            If the file unpacks to too much, or other data follows it.
        EOFError
            If it is cut short. Damage raises the errors of the modules `zlib`, `bz2` and `lzma`.
        """
        stop = self._position + n_bytes
        gathered = io.BytesIO()
        while True:
            gathered.write(self._block[max(0, self._position - self._start) : max(0, stop - self._start)])
            end = self._start + len(self._block)
            self._position = max(self._position, min(stop, end))
            if stop <= end or (block := next(self._blocks, None)) is None:
                return gathered.getvalue()
            kept = self._block[-_KEPT:]
            self._block, self._start = kept + block, end - len(kept)

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""


def _blocks(path: Path, file: BinaryIO, kind: str, allowed: int) -> Iterator[bytes]:
    """Unpacked blocks of bounded size; the checksum of each stream is compared at its end."""
    total, rest = 0, file.read(_PACKED)
    while True:
        stream = _decompressor(kind)
        for block in _stream(stream, kind, rest, file):
            total += len(block)
            if total > allowed:
                raise refuse_size(path, allowed)
            yield block
        rest = stream.unused_data or file.read(_PACKED)
        while rest and not rest.strip(b"\0"):
            rest = file.read(_PACKED)
        rest = rest.lstrip(b"\0")
        if not rest:
            return
        rest += file.read(16)
        if compression_of(rest) != kind:
            raise ValueError(f"{path} is damaged: data that is not {kind} follows its compressed stream")


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_LZMA_MEMORY)


def _stream(stream: Any, kind: str, packed: bytes, file: BinaryIO) -> Iterator[bytes]:
    while not stream.eof:
        block = stream.decompress(packed, _UNPACKED)
        packed = stream.unconsumed_tail if kind == "gzip" else b""
        if block:
            yield block
        if stream.eof:
            return
        hungry = not packed if kind == "gzip" else stream.needs_input
        # zlib may return more output without further input.
        if hungry and not (packed := file.read(_PACKED)) and not block:
            raise EOFError("cut short: its compressed stream has no end")
