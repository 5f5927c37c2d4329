"""The start in cells: first kept components of rows, and the rows in the order of their cells. May import: run."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from vmfa_dask.run.executor import Executor, StageExecutor
from vmfa_dask.run.plan import reorders_rows
from vmfa_dask.run.row_copies import RowCounts
from vmfa_dask.run.tasks.cells import begin_in_cells
from vmfa_dask.run.tasks.row_order import check_room, drop_sorted, gather_rows, sort_rows


def start_in_cells(executor: Executor) -> None:
    """Give rows their first kept components, and copy them into the order of their cells.

    Rows of a stage keep their order: the run that follows reads them as well.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.

    Raises
    ------
    OSError
        If there is no room for the copies.
    """
    reorder = reorders_rows(executor.settings) and not isinstance(executor, StageExecutor)
    groups = range(len(executor.plan.groups))
    with _saying_what_copies_take():
        if reorder:
            executor.results([executor.submit("seed-room", 0, check_room)])
        counts = executor.results([executor.submit("seed-cells", g, begin_in_cells, g, reorder) for g in groups])
        if reorder:
            executor.storage.write(RowCounts(), {"counts": np.concatenate(counts)})
            _gather(executor, begin=True)


def restore_order(executor: Executor) -> None:
    """Copy the rows of a kept run into their order again, if it has one: copies are not kept.

    Parameters
    ----------
    executor : Executor
        Runs the tasks.

    Raises
    ------
    OSError
        If there is no room for the copies.
    """
    try:
        executor.storage.read(RowCounts())
    except KeyError:
        return
    with _saying_what_copies_take():
        executor.results([executor.submit("seed-room", 0, check_room)])
        executor.results([executor.submit("seed-sort", g, sort_rows, g) for g in range(len(executor.plan.groups))])
        _gather(executor, begin=False)


def _gather(executor: Executor, begin: bool) -> None:
    groups = range(len(executor.plan.groups))
    executor.results([executor.submit("seed-order", g, gather_rows, g, begin) for g in groups])
    executor.results([executor.submit("seed-end", 0, drop_sorted)])


@contextmanager
def _saying_what_copies_take() -> Iterator[None]:
    """Say what was written when the disk is full, and what helps."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(
                errno.ENOSPC,
                f"the rows are copied into the order of their cells: {error.strerror}; make room, choose a folder "
                "on a larger disk by scratch= or TMPDIR, or pass locality=False",
                error.filename,
            ) from error
        raise
