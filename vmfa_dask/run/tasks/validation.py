"""Tasks of the validation: rows that are held out are set aside once, and evaluated under a version of the parameters.

Every component is evaluated, so that nothing but the parameters affects the value, and no kept components of these rows
have to wait between evaluations. May import: addresses, values, em, run.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.rows import working_rows
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.held_out import TrainingRows, ValidationRows
from vmfa_dask.run.row_source import non_finite_row, read_ahead, refuse_non_finite
from vmfa_dask.runtime.clock import Stopwatch

# Log-joints that are in memory at once, about, and what they take in float64, beside rows that are narrowed.
_JOINTS = 2**22
EVALUATION_BYTES = 2 * 8 * _JOINTS


def set_aside(context: RunContext, group: int) -> int:
    """Store the held-out rows that lie among those of a group.

    Parameters
    ----------
    context : RunContext
        The run in this process; its rows are `TrainingRows`.
    group : int
        Number of the group.

    Returns
    -------
    int
        How many there are.

    Raises
    ------
    ValueError
        Naming a held-out row that is not finite.
    """
    rows, (start, stop) = context.rows, context.plan.groups[group]
    assert isinstance(rows, TrainingRows)
    first_row = rows.held_out.source_row(start) if group else 0
    last_row, parts = rows.held_out.source_row(stop), []
    for first, block in read_ahead(rows.source, first_row, last_row, context.plan.block_rows):
        numbers = rows.held_out.within(first, first + len(block))
        taken = np.ascontiguousarray(block[numbers - first])
        bad = non_finite_row(taken)
        if bad is not None:
            refuse_non_finite(rows.source, int(numbers[bad]), taken[bad : bad + 1])
        parts.append(taken)
    values = np.concatenate(parts)
    if len(values):
        context.storage.write(ValidationRows(group), {"rows": values})
    return len(values)


def evaluate_part(context: RunContext, part: int, version: int) -> tuple[float, int]:
    """Free energy of a part of the held-out rows.

    Parameters
    ----------
    context : RunContext
        The run in this process.
    part : int
        Number of the part.
    version : int
        Version of the parameters.

    Returns
    -------
    (float, int)
        Sum over the rows, in nats, and their number.

    Raises
    ------
    ValueError
        If no component gives a row a density that the precision of the run can hold.
    """
    try:
        rows = context.storage.read(ValidationRows(part))["rows"]
    except KeyError:  # no row of this group was drawn; the driver counts
        return 0.0, 0
    truncation, watch, total = context.settings.truncation, Stopwatch(), 0.0
    size = max(64, _JOINTS // context.settings.n_components)
    with context.cores.exclusive():
        centers, packed = context.centers(version), context.packed(version)
        for start in range(0, len(rows), size):
            block = working_rows(rows[start : start + size], centers.offset, centers.means.dtype.name)
            found = evaluate_exhaustively(block, packed, truncation, context.cores, context.buffers, watch)
            if not np.isfinite(found.free_energy).all():
                raise ValueError(
                    "validation: no component gives a row a density that "
                    f"precision={context.settings.precision!r} can hold; it lies too far from the training rows"
                )
            total += float(np.sum(found.free_energy))
    return total, len(rows)
