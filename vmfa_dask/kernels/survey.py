"""Passes over rows before a model exists: moments and extremes of features, distances to one row.

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import kernel, reduction


@kernel
def feature_moments(rows: Any, first: Any, last: Any, out_means: Any, out_squares: Any) -> None:
    """Mean and sum of squared deviations of features ``first:last``.

    Values are shifted by the first row before they are squared, so a large common offset costs no digits.

    Parameters
    ----------
    rows : (n, D), any real dtype
        At least one row.
    first, last : int
        Range of features.
    out_means : (D,) float64, out
    out_squares : (D,) float64, out
        Σ (x − mean)², exactly 0 for a constant feature.
    """
    n = rows.shape[0]
    for d in range(first, last):
        out_means[d] = 0.0
        out_squares[d] = 0.0
    # Rows outside: neighbouring features lie side by side, and each has a sum of its own, so that vectors need no
    # reordering of any sum.
    for i in range(n):
        for d in range(first, last):
            value = float(rows[i, d]) - float(rows[0, d])
            out_means[d] += value
            out_squares[d] += value * value
    for d in range(first, last):
        # The difference may round to just below 0 where all values are nearly equal.
        out_squares[d] = max(out_squares[d] - out_means[d] * out_means[d] / n, 0.0)
        out_means[d] = float(rows[0, d]) + out_means[d] / n


@kernel
def extremes(rows: Any, first: Any, last: Any, out_extremes: Any) -> None:
    """The two smallest and the two largest distinct values of features ``first:last``.

    Parameters
    ----------
    rows : (n, D), any real dtype
    first, last : int
        Range of features.
    out_extremes : (4, D) float64, out
        Smallest, second smallest (∞ where all values are equal), second largest (−∞), largest.
    """
    # Neutral values: any first value replaces both ends.
    for d in range(first, last):
        out_extremes[0, d] = np.inf
        out_extremes[1, d] = np.inf
        out_extremes[2, d] = -np.inf
        out_extremes[3, d] = -np.inf
    for i in range(rows.shape[0]):
        for d in range(first, last):
            value = float(rows[i, d])
            # Written without branches, so that features pass in vector registers.
            low, high = out_extremes[0, d], out_extremes[3, d]
            out_extremes[1, d] = min(out_extremes[1, d], np.inf if value == low else max(value, low))
            out_extremes[2, d] = max(out_extremes[2, d], -np.inf if value == high else min(value, high))
            out_extremes[0, d] = min(low, value)
            out_extremes[3, d] = max(high, value)


@reduction
def squared_distances(rows: Any, center: Any, scales: Any, first: Any, last: Any, out_distances: Any) -> None:
    """Squared distances of rows ``first:last`` to one point, each feature in a unit of its own.

    Parameters
    ----------
    rows : (n, D), any real dtype
    center : (D,) float64
        The point.
    scales : (D,) float64
        Units of the features, positive.
    first, last : int
        Range of rows.
    out_distances : (n,) float64, out
    """
    inverse = 1.0 / scales  # divisions leave the loop: they take several times as long as products
    for i in range(first, last):
        total = 0.0
        for d in range(rows.shape[1]):
            difference = (float(rows[i, d]) - center[d]) * inverse[d]
            total += difference * difference
        out_distances[i] = total
