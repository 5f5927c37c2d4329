"""Which points of long columns a figure shows: as many as its pixels can tell apart. May import: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# The widest figure has some 700 pixels, the others 300.
MOST_POINTS = 256


def stretch_of(length: int) -> int:
    """Rows that two points stand for, such that there are few enough points.

    Parameters
    ----------
    length : int
        Number of rows.

    Returns
    -------
    int
        1 where each row is a point, or else a power of two from 4 on: earlier points stay what they are.
    """
    if length <= MOST_POINTS:
        return 1
    stretch = 4
    while 2 * -(-length // stretch) + 2 > MOST_POINTS:
        stretch *= 2
    return stretch


def points_of(columns: dict[str, NDArray[Any]], stretch: int, averaged: frozenset[str]) -> dict[str, NDArray[Any]]:
    """The ends, and two points for each stretch of rows: the smallest and the largest number of a column, in order.

    So nothing that sticks out is lost; along the x axis, a number is off by less than a stretch. The first point is the
    first row, and the last point the last row.

    Parameters
    ----------
    columns : dict of str to array
        Columns of equal length, `pass` among them; the first row begins a stretch.
    stretch : int
        From `stretch_of`.
    averaged : frozenset of str
        Columns of which both points are the mean, as stacks of extremes would add up to what never was.

    Returns
    -------
    dict of str to array
    """
    length = len(columns["pass"])
    if stretch == 1 or length == 0:
        return columns
    n_stretches = -(-length // stretch)
    numbers = np.arange(n_stretches * stretch).reshape(n_stretches, stretch)
    within, numbers = numbers < length, np.minimum(numbers, length - 1)

    def drawn(name: str, column: NDArray[np.float64]) -> NDArray[np.float64]:
        inner = _two(column[numbers], within, name in averaged)
        ends = inner[[0, -1]] if name in averaged else column[[0, -1]]
        return np.concatenate([ends[:1], inner, ends[1:]])

    return {name: drawn(name, np.asarray(column, np.float64)) for name, column in columns.items()}


def _two(rows: NDArray[np.float64], within: NDArray[np.bool_], averaged: bool) -> NDArray[np.float64]:
    """Two numbers for each line of an (n, stretch) array; NaN where a line has none."""
    known = within & np.isfinite(rows)
    counts = known.sum(axis=1)
    if averaged:
        means = np.where(known, rows, 0.0).sum(axis=1) / np.maximum(counts, 1)
        return np.repeat(np.where(counts > 0, means, np.nan), 2)
    lines = np.arange(len(rows))
    low = np.where(known, rows, np.inf).argmin(axis=1)
    high = np.where(known, rows, -np.inf).argmax(axis=1)
    pairs = np.stack([rows[lines, np.minimum(low, high)], rows[lines, np.maximum(low, high)]], axis=1)
    return np.where((counts > 0)[:, None], pairs, np.nan).reshape(-1)
