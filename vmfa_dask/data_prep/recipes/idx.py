"""Files of the idx format (of MNIST and EMNIST), plain or compressed by gzip, as tables.

Imports `tables`, `source_files`, `unpacking` and NumPy.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vmfa_dask.data_prep.source_files import damage_named
from vmfa_dask.data_prep.tables import Block
from vmfa_dask.data_prep.unpacking import Unpacked

_UNSIGNED_BYTE = 8
_AHEAD = 2**20
"""Bytes that may be unpacked beyond the range asked for, as unpacking works in blocks."""


@dataclass(frozen=True)
class IdxTable:
    """Unsigned bytes of an idx file.

    Every task that reads a compressed file unpacks it from its beginning, so that neither memory nor disk has to hold
    it whole.

    Parameters
    ----------
    path : path
        The file, compressed by gzip if its name ends with ``.gz``.
    shape : tuple of int
        Of the array, from the header.
    """

    path: Path
    shape: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, n_axes: int) -> IdxTable:
        """Read the header, and a compressed file once to its end, where its checksum is.

        Parameters
        ----------
        path : path
            The file.
        n_axes : int
            Number of axes that its array must have.

        Returns
        -------
        IdxTable
            The table; rows are read later.

        Raises
        ------
        ValueError
            If the file is damaged, does not hold unsigned bytes on `n_axes` axes, or has another size than its header
            states.
        """
        header_bytes = 4 + 4 * n_axes
        header = _read(path, 0, header_bytes)
        expected = bytes((0, 0, _UNSIGNED_BYTE, n_axes))
        if header[:4] != expected:
            raise ValueError(
                f"{path} begins with {header[:4].hex()}, expected {expected.hex()} as in idx files of bytes"
            )
        shape = struct.unpack(f">{n_axes}I", header[4:])
        n_bytes = header_bytes + math.prod(shape)
        size = _size(path, n_bytes)
        if size != n_bytes:
            more = "more than " if size > n_bytes and path.suffix == ".gz" else ""
            size = n_bytes if more else size
            raise ValueError(f"{path} has {more}{size:,} bytes, expected {n_bytes:,} from its header {shape}")
        return cls(path, shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always uint8."""
        return np.dtype(np.uint8)

    def read(self, start: int, stop: int) -> Block:
        """Read rows ``start:stop``, as in `tables.Table.read`."""
        row_bytes = math.prod(self.shape[1:])
        content = _read(self.path, 4 + 4 * len(self.shape) + start * row_bytes, (stop - start) * row_bytes)
        return np.frombuffer(content, np.uint8).reshape(stop - start, *self.shape[1:])


def _read(path: Path, offset: int, n_bytes: int) -> bytes:
    with damage_named(path, "is damaged"), path.open("rb") as file:
        content: Any = file
        if path.suffix == ".gz":
            content = Unpacked(path, file, "gzip", offset + n_bytes + _AHEAD)
        content.seek(offset)
        values: bytes = content.read(n_bytes)
    if len(values) != n_bytes:
        raise ValueError(f"{path} ends after {offset + len(values):,} bytes, expected {offset + n_bytes:,} at least")
    return values


def _size(path: Path, expected: int) -> int:
    """Bytes of the content; one more than expected where a compressed file holds more than that."""
    if path.suffix != ".gz":
        return path.stat().st_size
    with damage_named(path, "is damaged"), path.open("rb") as file:
        content, n_bytes = Unpacked(path, file, "gzip", expected + _AHEAD), 0
        while n_bytes <= expected and (block := content.read(_AHEAD)):
            n_bytes += len(block)
    return min(n_bytes, expected + 1)
