"""Compressed streams, read to their very end, where their checksums are, and never to more than a limit.

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
"""An archive may unpack to so many bytes, or to so many times its own size."""
_PACKED, _UNPACKED = 2**16, 2**18
_KEPT = 2**12
"""So many bytes back can be read again: tarfile looks at headers twice."""
_LZMA_MEMORY = 192 * 2**20
_MAGICS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x5d\0\0": "lzma"}


def compression_of(head: bytes) -> str:
    """Return what a file is compressed by, from its first bytes; empty for none that is known."""
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), "")


def allowed_bytes(path: Path, stated: int | None) -> int:
    """Return how many bytes an archive may unpack to: as many as are stated, or in proportion to its size."""
    return max(FREE_BYTES, FREE_RATIO * path.stat().st_size) if stated is None else stated


def refuse_size(path: Path, allowed: int) -> ValueError:
    """Return the error of an archive that unpacks to more than it may."""
    return ValueError(
        f"{path} unpacks to more than {allowed:,} bytes (by default 1 GiB, or {FREE_RATIO} times its size if that "
        "is more); if it is meant to, state max_unpacked (--max-unpacked) in bytes"
    )


class Unpacked:
    """Bytes of a compressed file, for readers that go forward.

    Streams that follow one another are one, as for the programs that write them. What follows the last one must be
    zeros.

    Parameters
    ----------
    path : path
        Of the file, for errors.
    file : binary file
        At the beginning of the first stream.
    kind : {"gzip", "bzip2", "xz", "lzma"}
        The compression.
    allowed : int
        Number of bytes that it may unpack to.
    """

    def __init__(self, path: Path, file: BinaryIO, kind: str, allowed: int) -> None:
        self._blocks = _blocks(path, file, kind, allowed)
        self._block, self._start, self._place = b"", 0, 0

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._place

    def seek(self, place: int) -> int:
        """Go to a place, forward or some bytes back; where there is none, nothing can be read."""
        if place < self._start:
            raise io.UnsupportedOperation(f"byte {place} has passed already")
        self._place = place
        return place

    def read(self, n_bytes: int) -> bytes:
        """Read so many bytes, fewer at the end alone."""
        stop = self._place + n_bytes
        gathered = io.BytesIO()
        while True:
            gathered.write(self._block[max(0, self._place - self._start) : max(0, stop - self._start)])
            end = self._start + len(self._block)
            self._place = max(self._place, min(stop, end))
            if stop <= end or (block := next(self._blocks, None)) is None:
                return gathered.getvalue()
            kept = self._block[-_KEPT:]
            self._block, self._start = kept + block, end - len(kept)

    def close(self) -> None:
        """Leave the file, which is its owner's."""


def _blocks(path: Path, file: BinaryIO, kind: str, allowed: int) -> Iterator[bytes]:
    """Unpacked blocks of bounded size, the checksums of each stream compared at its end."""
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
            raise ValueError(f"{path} is damaged: data that is not {kind} follows behind its compressed stream")


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
        # zlib may hold back output without input.
        if hungry and not (packed := file.read(_PACKED)) and not block:
            raise EOFError("cut short: its compressed stream has no end")
