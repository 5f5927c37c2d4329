"""Results of rows into a store, range by range; the same call continues after an interruption.

May import: values, run, store, apply, zarr.
"""

from __future__ import annotations

import os
from typing import Any

from zarr.storage import LocalStore

from vmfa_dask.apply.calls import described_call, described_rows
from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.row_functions import RowFunction
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.store.outputs import open_results
from vmfa_dask.store.results import Node, ResultStore
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.values import Mixture

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
    check_apart(out, rows)
    call = described_call(mixture, function.method, function.options, rows=described_rows(rows))
    return open_results(out, function.columns, rows.n_rows, call)


def check_apart(out: Any, rows: RowSource) -> None:
    """Refuse an output that is the rows themselves.

    Parameters
    ----------
    out : str, path, zarr.Array or zarr.Group
        The output.
    rows : RowSource
        The rows.

    Raises
    ------
    ValueError
        If an open array is that of the rows; a path where something is stored is refused later, or continued.
    """
    store = getattr(out, "store", None)
    if not (isinstance(rows, ZarrRows) and isinstance(store, LocalStore)):
        return
    if os.path.realpath(os.path.join(str(store.root), out.path)) == os.path.realpath(rows.label):
        raise ValueError(f"out: these are the rows themselves ({rows.label}); pass another path or array")


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
    return output.fill(
        rows_per_write(evaluator.block_rows, function.row_bytes),
        lambda start, stop: function.of_range(evaluator, rows, start, stop),
    )


def rows_per_write(block_rows: int, row_bytes: int) -> int:
    """Rows whose results are held until they are written, without what fills up a chunk.

    Parameters
    ----------
    block_rows : int
        Rows that are computed at once.
    row_bytes : int
        Of the results of a row.

    Returns
    -------
    int
        One row block at the least, as reading ahead ends with each write.
    """
    fitting = _RESULT_BYTES // max(1, row_bytes)
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
    step = output.whole_chunks(rows_per_write(evaluator.block_rows, function.row_bytes))
    for low in range(start, stop, step):
        output.write(low, function.of_range(evaluator, rows, low, min(low + step, stop)))
