"""Rows of a row block by the components that own them. May import: values, kernels, runtime, em."""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.kernels.search import count_by_owner, group_by_owner
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, Int32, Int64

_OPERATIONS_PER_RANK = 4


def count_owned_rows(block: RowBlock, n_ranks: int, least: float, n_components: int, cores: Cores) -> Int64:
    """Rows that each component owns.

    Parameters
    ----------
    block : RowBlock
        Evaluated rows.
    n_ranks : int
        Kept components that may own their row, the first ones: 1 for the best alone.
    least : float
        Owners have a larger responsibility than this.
    n_components : int
        C.
    cores : Cores
        Threads of this process.

    Returns
    -------
    (C,) int64 array
    """
    counts = np.empty(n_components, np.int64)
    kept = (block.components, block.responsibilities, n_ranks, least)
    cores.run(lambda a, b: count_by_owner(*kept, a, b, counts), _ranges(block, n_ranks, n_components, cores))
    return counts


def owned_rows(
    block: RowBlock, n_ranks: int, least: float, begins: Int64, n_owned: int, cores: Cores
) -> tuple[Int32, Float64]:
    """Rows by the component that owns them, in order within one: its sums have one order on any number of threads.

    Parameters
    ----------
    block, n_ranks, least, cores
        As in `count_owned_rows`.
    begins : (C,) int64 array
        Where the rows of each component begin in the result; used up.
    n_owned : int
        J, the sum of all counts.

    Returns
    -------
    members : (J,) int32 array
        Numbers of the rows in their block.
    weights : (J,) float64 array
        Responsibilities of their owners.
    """
    members, weights = np.empty(n_owned, np.int32), np.empty(n_owned)
    kept = (block.components, block.responsibilities, n_ranks, least)
    cores.run(
        lambda a, b: group_by_owner(*kept, a, b, begins, members, weights),
        _ranges(block, n_ranks, len(begins), cores),
    )
    return members, weights


def _ranges(block: RowBlock, n_ranks: int, n_components: int, cores: Cores) -> list[tuple[int, int]]:
    """One range of components per thread, as each range takes a pass over the rows."""
    operations = _OPERATIONS_PER_RANK * len(block.components) * n_ranks / n_components
    return cores.split(n_components, operations, parts_per_thread=1)
