"""Files of the idx format (of MNIST and EMNIST), plain or compressed by gzip, as tables. Imports `shards` and NumPy."""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.shards import Block

_UNSIGNED_BYTE = 8


@dataclass(frozen=True)
class IdxTable:
    """Unsigned bytes of an idx file.

    Compressed files are unpacked from their beginning on in every task that reads them, so that neither memory nor disk
    has to hold them whole.
    """

    path: Path
    shape: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, n_axes: int) -> IdxTable:
        """Read the header.

        Raises
        ------
        ValueError
            When the file is not of unsigned bytes on `n_axes` axes, or a plain file has another size than it states.
        """
        header_bytes = 4 + 4 * n_axes
        header = _read(path, 0, header_bytes)
        expected = bytes((0, 0, _UNSIGNED_BYTE, n_axes))
        if header[:4] != expected:
            raise ValueError(
                f"{path} begins with {header[:4].hex()}, expected {expected.hex()} as in idx files of bytes"
            )
        shape = struct.unpack(f">{n_axes}I", header[4:])
        n_bytes = header_bytes + int(np.prod(shape, dtype=np.int64))
        if path.suffix != ".gz" and path.stat().st_size != n_bytes:
            raise ValueError(f"{path} has {path.stat().st_size:,} bytes, expected {n_bytes:,} from its header {shape}")
        return cls(path, shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always uint8."""
        return np.dtype(np.uint8)

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start:stop``."""
        row_bytes = int(np.prod(self.shape[1:], dtype=np.int64))
        content = _read(self.path, 4 + 4 * len(self.shape) + start * row_bytes, (stop - start) * row_bytes)
        return np.frombuffer(content, np.uint8).reshape(stop - start, *self.shape[1:])


def _read(path: Path, offset: int, n_bytes: int) -> bytes:
    try:
        with _open(path) as file:
            file.seek(offset)
            content: bytes = file.read(n_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if len(content) != n_bytes:
        raise ValueError(f"{path} ends after {offset + len(content):,} bytes, expected {offset + n_bytes:,} at least")
    return content


def _open(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
