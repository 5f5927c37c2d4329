"""Which log-joints to distrust: bounds on their rounding errors, and the sums that tell how much has cancelled.

Scoring evaluates rows again where these say so; training needs none of it. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import kernel, reduction


@kernel
def mark_doubts(
    log_joints: Any, log_norms: Any, relative_errors: Any, tolerances: Any, first: Any, last: Any, out_marks: Any
) -> None:
    """Which rows ``first:last`` are worth a closer look.

    A joint of distance d can be wrong by ``relative_errors[c] d / 2``. A row is doubtful where a component may be as
    good as the best one, and its joint be wrong by more than ``tolerances[c]``.

    Parameters
    ----------
    log_joints : (C, n) float64
    log_norms : (C,) float64
        Joints at the means, in nats.
    relative_errors : (C,) float64
        Largest error of a distance, as a part of it.
    tolerances : (C,) float64
        Errors that do not count, in nats.
    first, last : int
        Range of rows.
    out_marks : (n,) uint8, out
        0 for a row that needs nothing, 1 for a doubtful one, 2 where a joint is not finite.
    """
    n = last - first
    # Components outside, since a row of the (C, n) joints is contiguous; written without branches, so that rows pass in
    # vector registers. The floor of a row is the least that its best joint can be.
    floor, doubts, finite = np.full(n, -np.inf), np.zeros(n), np.zeros(n)
    for c in range(log_norms.shape[0]):
        relative, norm = relative_errors[c], log_norms[c]
        for i in range(n):
            value = log_joints[c, first + i]
            lowest = value - relative * (norm - value)  # norm − value is half of the distance
            floor[i] = lowest if lowest > floor[i] else floor[i]
            finite[i] += value * 0.0  # NaN from the first value on that is not finite
    # A second sweep: whether an error matters depends on the floor, which is known only after all components.
    for c in range(log_norms.shape[0]):
        relative, norm, tolerance = relative_errors[c], log_norms[c], tolerances[c]
        for i in range(n):
            value = log_joints[c, first + i]
            error = relative * (norm - value)
            doubts[i] = 1.0 if (error > tolerance) & (value + error >= floor[i]) else doubts[i]
    # −∞ of a dropped component counts as not finite, too: callers leave those out.
    for i in range(n):
        out_marks[first + i] = 2 if finite[i] != 0.0 else int(doubts[i])


@reduction
def whitened_squares(
    rows: Any, ids: Any, owners: Any, means: Any, noise_variances: Any, first: Any, last: Any, out_squares: Any
) -> None:
    """Σ t²/σ² in float64 of the pairs ``first:last`` of a row and a component.

    Beside the distance it tells how many digits of the distance have cancelled.

    Parameters
    ----------
    rows : (n, D), any real dtype
    ids : (P,) int64
        Row of each pair.
    owners : (P,) int64
        Component of each pair; pairs of one component should follow each other.
    means : (C, D) float32 or float64
    noise_variances : (C, D), same dtype
    first, last : int
        Range of pairs.
    out_squares : (P,) float64, out
    """
    current, mean, inverse = -1, np.empty(rows.shape[1]), np.empty(rows.shape[1])
    for k in range(first, last):
        i, c = ids[k], owners[k]
        if c != current:  # the component's parameters are widened and inverted once for all of its pairs
            current = c
            for d in range(rows.shape[1]):
                mean[d], inverse[d] = means[c, d], 1.0 / np.float64(noise_variances[c, d])
        # Residuals before squares: Σ x²/σ² less the terms of μ would cancel the digits that are to be counted.
        total = 0.0
        for d in range(rows.shape[1]):
            t = np.float64(rows[i, d]) - mean[d]
            total += t * t * inverse[d]
        out_squares[k] = total
