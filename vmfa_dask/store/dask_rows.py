"""Dask arrays as rows. Dask itself is not imported: what is needed are methods of the array.

May import: numpy, store, tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.store.plain import refuse_masked
from vmfa_dask.store.units import Rows, WholeUnits
from vmfa_dask.tables import Origin, check_table, row_dtype


def plain_blocks(label: str, array: Any) -> Any:
    """The Dask array whose chunks are plain numbers of its dtype, in native byte order.

    Parameters
    ----------
    label : name of the argument, for messages
    array : (N, ...) Dask array

    Raises
    ------
    ValueError
        When sizes are unknown or it is no table of numbers. What its chunks hold is found where they are computed:
        masked values are refused there.
    """
    if any(np.isnan(size) for size in array.shape):
        raise ValueError(
            f"{label}: a dask array whose chunks have unknown sizes; call its compute_chunk_sizes() before"
        )
    check_table(label, array.shape, array.dtype)
    dtype = np.dtype(array.dtype).newbyteorder("=")
    return array.map_blocks(_plain_block, label, dtype.str, dtype=dtype, meta=np.empty((0,) * array.ndim, dtype))


def _plain_block(block: Any, label: str, dtype: str, block_info: Any = None) -> NDArray[Any]:
    """One chunk, computed."""
    start, stop = block_info[0]["array-location"][0] if block_info else (0, len(block))
    refuse_masked(f"{label}, rows {start}:{stop}", block)
    try:
        return np.asarray(block).astype(dtype, casting="same_kind", copy=False)
    except TypeError as error:
        raise ValueError(f"{label}, rows {start}:{stop}: chunks of dtype {dtype} were announced: {error}") from error


class DaskRows:
    """Rows of a Dask array, computed chunk by chunk where they are read; one chunk of rows is held.

    Parameters
    ----------
    array : (N, ...) any integer or float dtype, as `plain_blocks` gives it
    origin : what the rows are called in messages
    """

    def __init__(self, array: Any, origin: Origin) -> None:
        self._array, self._origin = array, origin
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype = int(array.shape[0]), row_dtype(array.dtype)
        self.chunk_rows = self.decoded_rows = max(int(size) for size in array.chunks[0])
        self.reads_parts, self.bytes_read = False, 0
        self._units = WholeUnits(self._computed, self.chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop`` as (n, D), read-only."""
        block = self._units.read(start, stop)
        block.flags.writeable = False
        return block

    def _computed(self, start: int, stop: int) -> Rows:
        return np.array(self._array[start:stop], self.dtype).reshape(stop - start, -1)

    @property
    def remedy(self) -> str:
        """As the origin says."""
        return self._origin.remedy

    def describe(self, row: int) -> str:
        """The row's number, and whose row it is."""
        return f"{self._origin.label}: row {row}"
