"""Rows as a plan knows them: how many there are and of what kind, and some to measure with. May import: run, numpy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.run.row_source import RowSource, n_features_of

_CHUNK_BYTES = 2**21
# Rows of the data that rates are measured with, at most.
_SAMPLE_BYTES, _SAMPLE_PARTS = 2**27, 16


def check_counts(**counts: int | None) -> None:
    """Refuse what counts nothing.

    Parameters
    ----------
    **counts : int or None
        By the name of the argument.

    Raises
    ------
    ValueError
        Naming one that is no positive whole number.
    """
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ValueError(f"{name}={count!r}: expected a positive whole number")


def rows_of_size(n_rows: int, n_features: int, dtype: np.dtype[Any], chunk_rows: int | None = None) -> Any:
    """What a plan needs to know of rows that do not exist yet.

    Parameters
    ----------
    n_rows, n_features : int
        N and D.
    dtype : numpy.dtype
        Of the store.
    chunk_rows : int, optional
        Rows of a chunk; by default about 2 MiB, as `prepare` makes them.

    Returns
    -------
    RowSource
        Without rows to read.

    Raises
    ------
    ValueError
        When a number is not positive.
    """
    check_counts(n_rows=n_rows, n_features=n_features)
    chunk = min(n_rows, chunk_rows or max(1, _CHUNK_BYTES // (n_features * dtype.itemsize)))
    return SimpleNamespace(
        n_rows=n_rows, feature_shape=(n_features,), dtype=dtype, chunk_rows=chunk, decoded_rows=chunk, reads_parts=False
    )


def as_many(source: RowSource, n_rows: int | None) -> Any:
    """The rows of a source, or another number of such rows.

    Parameters
    ----------
    source : RowSource
        The rows.
    n_rows : int, optional
        How many; by default as many as there are.

    Returns
    -------
    RowSource
        Without rows to read.
    """
    names = ("feature_shape", "dtype", "chunk_rows", "decoded_rows", "reads_parts")
    known = {name: getattr(source, name) for name in names}
    return SimpleNamespace(n_rows=n_rows or source.n_rows, **known)


def sample_of(source: RowSource) -> NDArray[Any]:
    """Rows from parts all over a source, to measure rates with.

    Parameters
    ----------
    source : RowSource
        The rows.

    Returns
    -------
    (n, D) array
        Up to 128 MiB, in random order.
    """
    d = n_features_of(source)
    n_rows = min(source.n_rows, max(1, _SAMPLE_BYTES // (d * source.dtype.itemsize)))
    length = -(-n_rows // _SAMPLE_PARTS)
    starts = np.unique(np.linspace(0, source.n_rows - length, _SAMPLE_PARTS).astype(np.int64))
    sample = np.concatenate([source.read(int(start), int(start) + length) for start in starts])
    return sample[np.random.default_rng(0).permutation(len(sample))]
