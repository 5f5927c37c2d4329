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
    """Where rows come from. Reading is thread-safe and returns arrays that nobody writes to."""

    @property
    def n_rows(self) -> int: ...

    @property
    def feature_shape(self) -> tuple[int, ...]: ...

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
        """Rows ``start:stop`` as (n, D), C-contiguous, of `dtype`."""
        ...

    @property
    def remedy(self) -> str:
        """What helps where a row holds NaN or infinity, for messages."""
        ...

    def describe(self, row: int) -> str:
        """Where a row lies, for messages."""
        ...


class ArrayRows:
    """Rows of a NumPy array in memory or of a memory map.

    What kernels cannot take as it lies (strides, byte order, half precision) is converted block by block, so that a
    memory map stays on its disk.

    Parameters
    ----------
    array : (N, ...) any integer or float dtype
    chunk_rows : see `RowSource`
    origin : what the rows are called in messages

    Raises
    ------
    ValueError
        When the array has no row axis and feature axes, or no numbers.
    """

    def __init__(self, array: Any, chunk_rows: int = 1, origin: Origin | None = None) -> None:
        array = np.asarray(array)
        check_table(origin.label if origin else "array", array.shape, array.dtype)
        self._rows, self.origin = array, origin
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype, self.chunk_rows = int(array.shape[0]), row_dtype(array.dtype), chunk_rows
        self.decoded_rows, self.reads_parts, self.bytes_read = 1, True, 0

    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop``, a view where that is possible."""
        block = self._rows[start:stop]
        return read_only(np.ascontiguousarray(block.reshape(len(block), -1), self.dtype))

    @property
    def remedy(self) -> str:
        """As the origin says."""
        return (self.origin or Origin("")).remedy

    def describe(self, row: int) -> str:
        """The row's number, and whose row it is where that is known."""
        return f"{self.origin.label}: row {row}" if self.origin else f"row {row}"


def n_features_of(rows: RowSource) -> int:
    """D."""
    return int(np.prod(rows.feature_shape))


def read_ahead(source: RowSource, start: int, stop: int, block_rows: int) -> Iterator[tuple[int, Rows]]:
    """Blocks ``(first row, rows)`` of ``start:stop`` in order; the next one is read while the caller works."""
    starts = list(range(start, stop, block_rows))
    with ThreadPoolExecutor(1, thread_name_prefix="vmfa-read") as reader:
        following = reader.submit(source.read, starts[0], min(starts[0] + block_rows, stop))
        for k, first in enumerate(starts):
            block = following.result()
            if k + 1 < len(starts):
                following = reader.submit(source.read, starts[k + 1], min(starts[k + 1] + block_rows, stop))
            yield first, block


def non_finite_row(block: Rows) -> int | None:
    """First row of a block that holds NaN or infinity, or None."""
    if block.dtype.kind != "f":
        return None
    bad = ~np.isfinite(block).all(axis=1)
    return int(np.argmax(bad)) if bad.any() else None


def refuse_non_finite(source: RowSource, first: int, block: Rows) -> None:
    """Raise for NaN or infinity in a block that starts at row `first`.

    Raises
    ------
    ValueError
        Naming the row, its chunk and the feature.
    """
    row = non_finite_row(block)
    if row is not None:
        feature = int(np.argmax(~np.isfinite(block[row])))
        raise ValueError(
            f"{source.describe(first + row)}, feature {feature}: found {block[row, feature]}, "
            f"expected a finite number; {source.remedy}"
        )


def gather(source: RowSource, row_numbers: Int64) -> Rows:
    """Single rows by number, in the given order."""
    return np.concatenate([source.read(int(n), int(n) + 1) for n in row_numbers])
