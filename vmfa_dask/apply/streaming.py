"""Results of rows into a store, range by range; the same call continues after an interruption.

May import: values, run, store, apply, numpy, zarr.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
from zarr.storage import LocalStore

from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.row_functions import RowFunction
from vmfa_dask.run.row_source import RowSource, n_features_of
from vmfa_dask.store.dask_rows import DaskRows
from vmfa_dask.store.outputs import open_results
from vmfa_dask.store.results import Node, ResultStore
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.values import Mixture

# Rows up to this size are hashed as a whole; of more, as many as follow.
_HASHED_BYTES, _HASHED_ROWS, _ROWS_PER_READ = 64 * 2**20, 64, 4096
# Results that wait to be written, in bytes and in row blocks.
_RESULT_BYTES, _MOST_BLOCKS = 64 * 2**20, 16


def open_output(out: Any, mixture: Mixture, function: RowFunction, rows: RowSource) -> ResultStore:
    """Open the output of a call; it is recognised by method, options, model and rows.

    Parameters
    ----------
    out : str, path, zarr.Array or zarr.Group
        As `store.outputs.open_results` takes it.
    mixture : Mixture
        The model.
    function : RowFunction
        What is computed.
    rows : RowSource
        Of which rows.

    Returns
    -------
    ResultStore
        With what an earlier call has completed.

    Raises
    ------
    FileExistsError, TypeError, ValueError
        As `store.outputs.open_results`.
    """
    if isinstance(rows, ZarrRows) and _location_of(out) == os.path.realpath(rows.label):
        raise ValueError(f"out: these are the rows themselves ({rows.label}); pass another path or array")
    call = {
        "method": function.method,
        "options": dict(function.options),
        "model": _hash_of_mixture(mixture),
        "rows": _description_of(rows),
    }
    return open_results(out, function.columns, rows.n_rows, call)


def write_results(evaluator: Evaluator, function: RowFunction, rows: RowSource, out: Any) -> Node:
    """Compute results into an output.

    Parameters
    ----------
    evaluator : Evaluator
        Of the model.
    function : RowFunction
        What is computed.
    rows : RowSource
        Of which rows.
    out : str, path, zarr.Array or zarr.Group
        As `store.outputs.open_results` takes it.

    Returns
    -------
    zarr.Array or zarr.Group
        The output, complete.

    Raises
    ------
    FileExistsError, TypeError, ValueError
        As `open_output`, and at a row that holds NaN or infinity; rows before it stay complete.
    """
    output = open_output(out, evaluator.mixture, function, rows)
    try:
        for start, stop in output.missing(rows_per_write(evaluator.block_rows, function)):
            write_range(evaluator, function, rows, output, start, stop)
            output.note(start, stop)
    finally:
        output.save()
    return output.node


def rows_per_write(block_rows: int, function: RowFunction) -> int:
    """Rows whose results are held until they are written, without what fills up a chunk.

    Parameters
    ----------
    block_rows : int
        `Evaluator.block_rows`.
    function : RowFunction
        What is computed.

    Returns
    -------
    int
        One row block at the least, as reading ahead ends with each write.
    """
    fitting = _RESULT_BYTES // max(1, function.row_bytes)
    return max(block_rows, min(fitting, _MOST_BLOCKS * block_rows))


def write_range(
    evaluator: Evaluator, function: RowFunction, rows: RowSource, output: ResultStore, start: int, stop: int
) -> None:
    """Compute the results of a range and write them, whole chunks at a time.

    Parameters
    ----------
    evaluator : Evaluator
        Of the model.
    function : RowFunction
        What is computed.
    rows : RowSource
        The rows.
    output : ResultStore
        Is written to.
    start, stop : int
        A range that `output.missing` has given.

    Raises
    ------
    ValueError
        At a row that holds NaN or infinity.
    OSError
        When results cannot be written.
    """
    step = output.whole_chunks(rows_per_write(evaluator.block_rows, function))
    for low in range(start, stop, step):
        output.write(low, function.of_range(evaluator, rows, low, min(low + step, stop)))


def _location_of(out: Any) -> str | None:
    """The folder of an open array; a path where something is stored is refused later, or continued."""
    store = getattr(out, "store", None)
    return os.path.realpath(os.path.join(str(store.root), out.path)) if isinstance(store, LocalStore) else None


def _hash_of_mixture(mixture: Mixture) -> str:
    digest = hashlib.blake2b(repr(mixture.feature_shape).encode(), digest_size=16)
    for name in ("weights", "means", "loadings", "noise_variances", "offset"):
        array = getattr(mixture, name)
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _description_of(rows: RowSource) -> dict[str, Any]:
    """Shape, dtype and a hash of rows: of all where that costs little, else of some that are spread over them."""
    described = {"shape": [rows.n_rows, *rows.feature_shape], "dtype": rows.dtype.name}
    if isinstance(rows, DaskRows):  # computing them only to recognise them would double the work
        return {**described, "name": rows.name}
    digest = hashlib.blake2b(digest_size=16)
    if rows.n_rows * n_features_of(rows) * rows.dtype.itemsize <= _HASHED_BYTES:
        step = max(_ROWS_PER_READ, rows.decoded_rows)
        ranges = [(start, min(start + step, rows.n_rows)) for start in range(0, rows.n_rows, step)]
    else:
        chosen = np.unique(np.linspace(0, rows.n_rows - 1, _HASHED_ROWS).astype(np.int64)).tolist()
        ranges = [(row, row + 1) for row in chosen]
    for start, stop in ranges:
        digest.update(np.ascontiguousarray(rows.read(start, stop)).data)
    return {**described, "hash": digest.hexdigest()}
