"""Tasks that merge the results of groups, one component block each. May import: values, em, run."""

from __future__ import annotations

from collections.abc import Sequence

from vmfa_dask.em.statistics import merge
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.handover import PartialResult, take_over
from vmfa_dask.values import RowTally, Statistics


def pick_block(context: RunContext, block: int, result: PartialResult) -> PartialResult:
    """One component block of a result, so that only this part travels.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : int
        Number of the component block.
    result : PartialResult
        The result.

    Returns
    -------
    PartialResult
    """
    return PartialResult({block: result.statistics[block]}, result.tally)


def merge_block(context: RunContext, block: int, *results: PartialResult) -> PartialResult:
    """Sum of one component block over several results, in their order.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : int
        Number of the component block.
    *results : PartialResult
        Results of groups.

    Returns
    -------
    PartialResult
    """
    with context.cores.exclusive(hurry=True):
        statistics = _merged(context, [take_over(context, block, result) for result in results])
    return PartialResult({block: statistics}, total_tally(results))


def add_block(context: RunContext, block: int, ends: bool, *results: PartialResult) -> PartialResult:
    """Sum of merged results and the next one.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    block : int
        Number of the component block.
    ends : bool
        Whether this is the last summand. Until then the sum is float64, as if one task had summed all of them.
    *results : PartialResult
        The sum so far, and the next summand.

    Returns
    -------
    PartialResult
    """
    with context.cores.exclusive(hurry=True):
        dtype = context.settings.precision if ends else "float64"
        statistics = _merged(context, [result.statistics[block] for result in results], dtype)
    return PartialResult({block: statistics}, total_tally(results))


def _merged(context: RunContext, parts: Sequence[Statistics], dtype: str | None = None) -> Statistics:
    settings = context.settings
    return merge(parts, settings.n_components, settings.graph_size, context.cores, context.buffers, dtype)


def total_tally(results: Sequence[PartialResult]) -> RowTally:
    """Sum of the row tallies of some results, in their order.

    Parameters
    ----------
    results : sequence of PartialResult
        At least one.

    Returns
    -------
    RowTally
    """
    total = results[0].tally
    for result in results[1:]:
        total += result.tally
    return total
