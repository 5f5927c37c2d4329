"""Tasks of the first pass over the rows: their survey, and what the run takes from it.

May import: values, kernels, em, seeding, run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vmfa_dask import addresses
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels import random, survey
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.row_checks import refuse_scales, refuse_span, with_squares
from vmfa_dask.run.row_source import read_ahead, refuse_non_finite
from vmfa_dask.seeding.survey import Survey, join_extremes
from vmfa_dask.values import Float64

# A feature is shifted when its mean exceeds this many standard deviations: then float32 would lose digits of the rows.
_OFFSET_DEVIATIONS = 64.0


def survey_group(context: RunContext, group: int) -> Survey:
    """Moments and extremes of the features over the rows of one group.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    group : int
        Number of the group.

    Returns
    -------
    Survey

    Raises
    ------
    ValueError
        Naming a row that holds NaN or infinity, or that is too far from the others for the precision of the run.
    """
    total: Survey | None = None
    with context.cores.exclusive():
        for first, block in read_ahead(context.rows, *context.plan.groups[group], context.plan.block_rows):
            refuse_non_finite(context.rows, first, block)
            part = _survey_block(context, first, block, total)
            total = part if total is None else total + part
    assert total is not None
    return total


def _survey_block(context: RunContext, first: int, block: Rows, before: Survey | None) -> Survey:
    """Survey of a row block; refuses rows too far from each other, or from those before, for the precision."""
    n, d = block.shape
    means, squares, extremes = np.empty(d), np.empty(d), np.empty((4, d))
    features = context.cores.split(d, 2 * n)
    context.cores.run(lambda a, b: survey.extremes(block, a, b, extremes), features)
    surveyed = Survey(n, means, squares, extremes)
    so_far = surveyed if before is None else replace(surveyed, extremes=join_extremes(extremes, before.extremes))
    refuse_span(context.rows, first, block, so_far.lowest, so_far.highest, context.settings.precision)
    rows = with_squares(block, surveyed.lowest, surveyed.highest)
    context.cores.run(lambda a, b: survey.feature_moments(rows, a, b, means, squares), features)
    return surveyed


def begin_run(context: RunContext, offset: Float64 | None, *surveys: Survey) -> None:
    """Write offset, variances, units and the first seed of a run.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    offset : (D,) float64 array or None
        Offset of a start that is given; None lets the survey decide.
    *surveys : Survey
        Surveys of all groups, in their order.

    Raises
    ------
    ValueError
        If the spread of a feature is too small for the precision of the run.
    """
    total = surveys[0]
    for part in surveys[1:]:
        total += part
    scales = total.scales()
    if context.settings.standardize:
        refuse_scales(scales, context.settings)
    if offset is None:
        shifted = np.abs(total.means) > _OFFSET_DEVIATIONS * np.sqrt(total.variances)
        narrow = context.rows.dtype.itemsize == 1 or context.settings.precision == "float64"
        offset = np.where(shifted & (not narrow), total.means, 0.0)
    first_row = np.full((1, 1), -1, np.int32)
    n_rows = min(total.n_rows, 2**31 - 1)
    random.distinct_integers(context.settings.random_state, random.SEED_ROWS, 0, 0, n_rows, first_row)
    context.storage.write(
        addresses.RowSurvey(),
        {
            "offset": offset,
            "variances": total.variances,
            "scales": scales,
            "floors": total.floors(),
            "lowest": total.lowest,
            "highest": total.highest,
            "first_row": first_row[0].astype(np.int64),
        },
    )
