"""Tables of rows, from which stores are made: the interface, plain rows in a file, and the outline of an array.

Imports `raw_shards` for its type, and NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vmfa_dask.data_prep.raw_shards import Extent

Block = npt.NDArray[Any]


class Table(Protocol):
    """Rows that can be read in ranges; tables are sent to workers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...)."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the rows."""
        ...

    def read(self, start: int, stop: int) -> Block:
        """Read rows.

        Parameters
        ----------
        start, stop : int
            Range of rows.

        Returns
        -------
        (stop - start, features...) array
            Of the table's dtype.

        Raises
        ------
        ValueError
            Naming the file, if it is damaged or has changed.
        """
        ...


@dataclass(frozen=True)
class RawTable:
    """Plain rows in a file, in C order.

    Parameters
    ----------
    path : path
        A file of these rows, after a header of `offset` bytes.
    shape : tuple of int
        (rows, features...).
    dtype : dtype
        The dtype of the values.
    offset : int
        Byte at which the first row begins.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0

    @property
    def n_bytes(self) -> int:
        """Size of all rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def extent(self, start: int, stop: int) -> Extent:
        """Locate rows ``start:stop``: the range of their bytes in the file."""
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        return Extent(self.path, self.offset + start * row_bytes, (stop - start) * row_bytes)

    def read(self, start: int, stop: int) -> Block:
        """Read rows ``start:stop``, as in `Table.read`."""
        extent = self.extent(start, stop)
        flat: Block = np.fromfile(self.path, self.dtype, extent.n_bytes // self.dtype.itemsize, offset=extent.start)
        return flat.reshape(stop - start, *self.shape[1:])


@dataclass(frozen=True)
class Outline:
    """An array to be written: the rows of all tables one after the other.

    Parameters
    ----------
    tables : sequence of Table
        At least one, which may be empty; all have the same row shape, and their dtypes are joined.
    dimension_names : tuple of str
        One per axis.
    rows_per_chunk : int, optional
        Rows per Zarr chunk; by default about 2 MiB of them.
    compress : bool
        Whether chunks are compressed by Zstandard.
    """

    tables: Sequence[Table]
    dimension_names: tuple[str, ...]
    rows_per_chunk: int | None = None
    compress: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, features...) of the array."""
        return (sum(table.shape[0] for table in self.tables), *self.tables[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype to which those of the tables are joined, in native byte order."""
        return np.result_type(*{table.dtype for table in self.tables}).newbyteorder("=")

    @property
    def n_bytes(self) -> int:
        """Size of all rows before compression."""
        return math.prod(self.shape) * self.dtype.itemsize
