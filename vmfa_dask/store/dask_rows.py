"""Dask arrays as a source of rows, for the functions of a model; a fit writes them to a store first.

Dask is not imported: methods of its array are enough. May import: tables, store, numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.store.units import Rows, WholeUnits
from vmfa_dask.tables import Origin, row_dtype


class DaskRows:
    """Rows of a Dask array, computed chunk by chunk as they are read; one chunk of rows is held.

    Parameters
    ----------
    array : dask.array.Array of shape (N, ...)
        Any integer or float dtype, with chunks as `store.plain.plain_chunks` gives them.
    origin : Origin
        What the rows are called in messages.

    Attributes
    ----------
    array : dask.array.Array
        As given.
    origin : Origin
        As given.
    n_rows : int
        N.
    feature_shape : tuple of int
        Shape of one row.
    dtype : dtype
        In which rows are read: native byte order, half precision as float32.
    chunk_rows, decoded_rows : int
        Rows of the largest chunk: what is computed at once.
    reads_parts : bool
        False: a chunk is computed whole.
    bytes_read : int
        0: nothing is read from a store here.
    """

    def __init__(self, array: Any, origin: Origin) -> None:
        self.array, self.origin = array, origin
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype = int(array.shape[0]), row_dtype(array.dtype)
        self.chunk_rows = self.decoded_rows = max(int(size) for size in array.chunks[0])
        self.reads_parts, self.bytes_read = False, 0
        self._units = WholeUnits(self._computed, self.chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Rows:
        """Read rows ``start:stop``.

        Parameters
        ----------
        start, stop : int
            ``0 <= start < stop <= n_rows``.

        Returns
        -------
        (n, D) array
            Of `dtype`, read-only.

        Raises
        ------
        ValueError
            When a chunk holds masked values, or another dtype than the array announces.
        """
        rows = self._units.read(start, stop)
        rows.flags.writeable = False
        return rows

    def _computed(self, start: int, stop: int) -> Rows:
        return np.array(self.array[start:stop], self.dtype).reshape(stop - start, -1)

    @property
    def name(self) -> str:
        """Dask's name of the array: the same for the same computation."""
        return str(self.array.name)

    def forget_blocks(self) -> None:
        """Nothing: none are kept."""

    @property
    def remedy(self) -> str:
        """What helps where a row holds NaN or infinity."""
        return self.origin.remedy

    def describe(self, row: int) -> str:
        """Name a row in messages.

        Parameters
        ----------
        row : int
            Its number.

        Returns
        -------
        str
            The number, and the name of the array.
        """
        return f"{self.origin.label}: row {row}"
