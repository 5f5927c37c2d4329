"""Rows as the E-step sees them: blocks of numbers in native byte order, from any source."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from vmfa_dask.em.rows import Rows, read_only
from vmfa_dask.tables import Origin, check_table, row_dtype
from vmfa_dask.values import Int64


class RowSource(Protocol):
    """Where rows come from. Reading is thread-safe and returns read-only arrays."""

    @property
    def n_rows(self) -> int:
        """N."""
        ...

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the blocks: that of the store, in native byte order, half precision as float32."""
        ...

    @property
    def chunk_rows(self) -> int:
        """Rows that are stored together; groups and blocks begin at their multiples."""
        ...

    @property
    def decoded_rows(self) -> int:
        """Rows that are decoded together."""
        ...

    @property
    def reads_parts(self) -> bool:
        """Whether a part of what is decoded together takes no more memory and time than its own rows."""
        ...

    @property
    def bytes_read(self) -> int:
        """Stored bytes that were read so far."""
        ...

    def read(self, start: int, stop: int) -> Rows:
        """Read a range of rows.

        Parameters
        ----------
        start, stop : int
            The range.

        Returns
        -------
        (stop − start, D) array
            C-contiguous, of `dtype`.
        """
        ...

    def forget_blocks(self) -> None:
        """Drop the rows that are kept in memory for the next pass."""
        ...

    @property
    def remedy(self) -> str:
        """What helps where a row holds NaN or infinity, for messages."""
        ...

    def describe(self, row: int) -> str:
        """Where a row lies, for messages.

        Parameters
        ----------
        row : int
            Its number.

        Returns
        -------
        str
        """
        ...


class ArrayRows:
    """Rows of a NumPy array in memory or of a memory map.

    Strides, byte orders and half precision, which kernels cannot take, are converted block by block, so that a memory
    map stays on its disk.

    Parameters
    ----------
    array : (N, ...) array
        Any integer or float dtype.
    chunk_rows : int
        See `RowSource`.
    origin : Origin, optional
        What the rows are called in messages.

    Raises
    ------
    ValueError
        If the array has no row axis and feature axes, or no numbers.
    """

    def __init__(self, array: Any, chunk_rows: int = 1, origin: Origin | None = None) -> None:
        array = np.asarray(array)
        check_table(origin.label if origin else "array", array.shape, array.dtype)
        self._rows, self.origin = array, origin
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype, self.chunk_rows = int(array.shape[0]), row_dtype(array.dtype), chunk_rows
        self.decoded_rows, self.reads_parts, self.bytes_read = 1, True, 0

    def read(self, start: int, stop: int) -> Rows:
        """A range of rows, as a view where that is possible; see `RowSource.read`."""
        block = self._rows[start:stop]
        return read_only(np.ascontiguousarray(block.reshape(len(block), -1), self.dtype))

    def forget_blocks(self) -> None:
        """Nothing; see `RowSource.forget_blocks`."""

    @property
    def remedy(self) -> str:
        """As the origin says."""
        return (self.origin or Origin("")).remedy

    def describe(self, row: int) -> str:
        """The row's number, and whose row it is where that is known; see `RowSource.describe`."""
        return f"{self.origin.label}: row {row}" if self.origin else f"row {row}"


def n_features_of(rows: RowSource) -> int:
    """Number of features of the rows of a source.

    Parameters
    ----------
    rows : RowSource
        The source.

    Returns
    -------
    int
        D.
    """
    return int(np.prod(rows.feature_shape))


def read_ahead(source: RowSource, start: int, stop: int, block_rows: int) -> Iterator[tuple[int, Rows]]:
    """Row blocks of a range in order; the next one is read while the caller works.

    Parameters
    ----------
    source : RowSource
        The rows.
    start, stop : int
        The range.
    block_rows : int
        Rows per block.

    Yields
    ------
    (int, (n, D) array)
        Number of the first row, and the rows.
    """
    starts = list(range(start, stop, block_rows))
    if len(starts) == 1:
        yield start, source.read(start, stop)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="vmfa-read") as reader:
        following = reader.submit(source.read, starts[0], min(starts[0] + block_rows, stop))
        for k, first in enumerate(starts):
            block = following.result()
            if k + 1 < len(starts):
                following = reader.submit(source.read, starts[k + 1], min(starts[k + 1] + block_rows, stop))
            yield first, block


def non_finite_row(block: Rows) -> int | None:
    """First row of a block that holds NaN or infinity.

    Parameters
    ----------
    block : (n, D) array
        The rows.

    Returns
    -------
    int or None
        Its index in the block, None where all are finite.
    """
    if block.dtype.kind != "f":
        return None
    bad = ~np.isfinite(block).all(axis=1)
    return int(np.argmax(bad)) if bad.any() else None


def refuse_non_finite(source: RowSource, first: int, block: Rows) -> None:
    """Raise for NaN or infinity in a row block.

    Parameters
    ----------
    source : RowSource
        Where the rows come from.
    first : int
        Number of the first row of the block.
    block : (n, D) array
        Its rows.

    Raises
    ------
    ValueError
        Naming the row, its chunk and the feature.
    """
    row = non_finite_row(block)
    if row is not None:
        feature = int(np.argmax(~np.isfinite(block[row])))
        value = block[row, feature]
        methods = "complete and score_observed of a fitted model take rows with missing values, fits do not"
        raise ValueError(
            f"{source.describe(first + row)}, feature {feature}: found {value}, expected a finite number; "
            f"{source.remedy}{f' ({methods})' if np.isnan(value) else ''}"
        )


def gather(source: RowSource, row_numbers: Int64) -> Rows:
    """Read single rows.

    Parameters
    ----------
    source : RowSource
        The rows.
    row_numbers : (K,) int64 array
        Their numbers.

    Returns
    -------
    (K, D) array
        In the given order.
    """
    return np.concatenate([source.read(int(n), int(n) + 1) for n in row_numbers])
