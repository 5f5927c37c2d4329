"""Descriptions of calls, by which the output of an interrupted call is recognised.

May import: values, run, store, numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.store.dask_rows import DaskRows
from vmfa_dask.values import Mixture

# Rows up to this size are hashed as a whole; of more, as many as follow.
_HASHED_BYTES, _HASHED_ROWS, _ROWS_PER_READ = 64 * 2**20, 64, 4096


def described_call(mixture: Mixture, method: str, options: Mapping[str, Any], **inputs: Any) -> dict[str, Any]:
    """Describe a call.

    Parameters
    ----------
    mixture : Mixture
        The model; it is hashed.
    method : str
        Name of the method.
    options : mapping
        Its options, as JSON values.
    **inputs
        Descriptions of rows and masks.

    Returns
    -------
    dict
        JSON values; equal for equal calls.
    """
    return {"method": method, "options": dict(options), "model": _hash_of_mixture(mixture), **inputs}


def described_rows(rows: RowSource) -> dict[str, Any]:
    """Describe rows by shape, dtype and a hash: of all where that costs little, else of some that are spread over them.

    Parameters
    ----------
    rows : RowSource
        The rows.

    Returns
    -------
    dict
        JSON values.
    """
    described = {"shape": [rows.n_rows, *rows.feature_shape], "dtype": rows.dtype.name}
    if isinstance(rows, DaskRows):  # computing them only to recognise them would double the work
        return {**described, "name": rows.name}
    row_bytes, step = n_features_of(rows) * rows.dtype.itemsize, max(_ROWS_PER_READ, rows.decoded_rows)
    return {**described, "hash": _hash_of_rows(rows.read, rows.n_rows, row_bytes, step)}


def described_mask(mask: Any) -> dict[str, Any]:
    """Describe a mask as rows are described.

    Parameters
    ----------
    mask : array_like of bool
        In memory, where it is hashed as a whole, or not.

    Returns
    -------
    dict
        JSON values.
    """
    shape = [int(n) for n in mask.shape]
    if isinstance(mask, np.ndarray):
        digest = hashlib.blake2b(np.packbits(mask).data, digest_size=16).hexdigest()
    else:
        row_bytes = int(np.prod(shape[1:]))
        digest = _hash_of_rows(lambda start, stop: np.asarray(mask[start:stop]), shape[0], row_bytes, _ROWS_PER_READ)
    return {"shape": shape, "hash": digest}


def _hash_of_rows(read: Callable[[int, int], Any], n_rows: int, row_bytes: int, step: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    if n_rows * row_bytes <= _HASHED_BYTES:
        ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    else:
        chosen = np.unique(np.linspace(0, n_rows - 1, _HASHED_ROWS).astype(np.int64)).tolist()
        ranges = [(row, row + 1) for row in chosen]
    for start, stop in ranges:
        digest.update(np.ascontiguousarray(read(start, stop)).data)
    return digest.hexdigest()


def _hash_of_mixture(mixture: Mixture) -> str:
    digest = hashlib.blake2b(repr(mixture.feature_shape).encode(), digest_size=16)
    for name in ("weights", "means", "loadings", "noise_variances", "offset"):
        array = getattr(mixture, name)
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
