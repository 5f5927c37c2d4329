"""Which log-joints to distrust: bounds on their rounding errors, and the sums that tell how much has cancelled.

Scoring evaluates rows again where these say so; training needs none of it. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import kernel, reduction

# Rows whose joints stay in the second-level cache while two sweeps pass over the components.
_STRIP = 64


@kernel
def near_pairs(
    log_joints: Any, log_norms: Any, relative_errors: Any, first: Any, last: Any, out_floors: Any, out_best: Any
) -> Any:
    """Components that may be as good as the best one of rows ``first:last``, the best ones included.

    A joint of distance d can be wrong by ``relative_errors[c] d / 2``.

    Parameters
    ----------
    log_joints : (C, n) float64
    log_norms : (C,) float64
        Joints at the means, in nats.
    relative_errors : (C,) float64
        Largest error of a distance, as a part of it.
    first, last : int
        Range of rows.
    out_floors : (n,) float64, out
        The least that the best joint of a row can be; NaN where a joint is not finite, and such a row has no pairs.
    out_best : (n,) int64, out
        Component of the largest joint.

    Returns
    -------
    components, rows : (P,) int64
        The pairs.
    """
    components, rows = np.empty(2 * (last - first) + _STRIP, np.int64), np.empty(2 * (last - first) + _STRIP, np.int64)
    n_pairs = 0
    top, lowest, finite = np.empty(_STRIP), np.empty(_STRIP), np.empty(_STRIP)
    floor, best = np.empty(_STRIP), np.empty(_STRIP)
    for low in range(first, last, _STRIP):
        n = min(_STRIP, last - low)
        top[:], lowest[:], finite[:], floor[:], best[:] = -np.inf, -np.inf, 0.0, -np.inf, 0.0
        # Components outside, since a row of the (C, n) joints is contiguous; without branches, so that rows pass in
        # vector registers.
        for c in range(log_norms.shape[0]):
            relative, norm = relative_errors[c], log_norms[c]
            for i in range(n):
                value = log_joints[c, low + i]
                least = value - relative * (norm - value)  # norm − value is half of the distance
                better = value > top[i]
                top[i] = value if better else top[i]
                lowest[i] = least if better else lowest[i]
                best[i] = c if better else best[i]
                floor[i] = least if least > floor[i] else floor[i]
                finite[i] += value * 0.0  # NaN from the first value on that is not finite
        for i in range(n):
            is_finite = finite[i] == 0.0
            out_floors[low + i], out_best[low + i] = floor[i] if is_finite else np.nan, int(best[i])
            lowest[i] = lowest[i] if is_finite else np.inf
        for c in range(log_norms.shape[0]):
            relative, norm = relative_errors[c], log_norms[c]
            n_near = 0
            for i in range(n):
                value = log_joints[c, low + i]
                n_near += 1 if value + relative * (norm - value) >= lowest[i] else 0
            if n_near == 0:
                continue
            if n_pairs + n_near > components.shape[0]:
                components = np.concatenate((components, np.empty_like(components)))
                rows = np.concatenate((rows, np.empty_like(rows)))
            for i in range(n):
                value = log_joints[c, low + i]
                if value + relative * (norm - value) >= lowest[i]:
                    components[n_pairs], rows[n_pairs] = c, low + i
                    n_pairs += 1
    return components[:n_pairs], rows[:n_pairs]


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
