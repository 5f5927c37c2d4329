"""The choice of candidates that are evaluated on all features, and what the estimates of the others are worth.

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

from vmfa_dask.kernels.arguments import SearchSpaces
from vmfa_dask.kernels.compile import kernel


@kernel
def select_candidates(
    components: Any, spaces: SearchSpaces, n_best: Any, first: Any, last: Any, out_sizes: Any
) -> None:
    """Put the candidates of rows ``first:last`` first that are evaluated on all features.

    These are the kept components, and those with the `n_best` largest estimates; ties go to the smaller number.

    Parameters
    ----------
    components : (n, C') int32
        Kept components, −1 where a row has fewer.
    spaces : SearchSpaces, in and out
        Estimated candidates. Their order changes, and `by_row` gets their estimates.
    n_best : int
        Candidates whose estimates are the largest, kept components included.
    first, last : int
        Range of rows.
    out_sizes : (n,) int32, out
        How many candidates are evaluated: the first ones.
    """
    candidates, sizes, slots, log_joints, by_row = spaces
    for i in range(first, last):
        size = sizes[i]
        row, values = candidates[i], by_row[i]
        for k in range(size):
            values[k] = log_joints[slots[i, k]]
        n_kept = 0
        for rank in range(components.shape[1]):
            # Components that were dropped are no candidates.
            for k in range(n_kept, size):
                if row[k] == components[i, rank]:
                    row[n_kept], row[k] = row[k], row[n_kept]
                    values[n_kept], values[k] = values[k], values[n_kept]
                    n_kept += 1
                    break
        n = n_kept
        while n < size:
            # The best of what is left, and how many are better.
            best = n
            for k in range(n + 1, size):
                if values[k] > values[best] or (values[k] == values[best] and row[k] < row[best]):
                    best = k
            n_better = n - n_kept
            for k in range(n_kept):
                if values[k] > values[best] or (values[k] == values[best] and row[k] < row[best]):
                    n_better += 1
            if n_better >= n_best:
                break
            row[n], row[best] = row[best], row[n]
            values[n], values[best] = values[best], values[n]
            n += 1
        out_sizes[i] = n


@kernel
def anchor_estimates(spaces: SearchSpaces, evaluated: Any, first: Any, last: Any) -> None:
    """Shift the estimates of each row, so that the one of its best component is the log-joint of that component.

    What a part tells is how much less another component explains than the best one does: whether the part itself is
    easy or hard to explain, and in which units its features are, cancels.

    Parameters
    ----------
    spaces : SearchSpaces, in and out
        Log-joints of the candidates that were evaluated on all features, at their slots, and estimates of all in
        `by_row`; the estimates of the others are shifted.
    evaluated : (n,) int32
        How many candidates were evaluated on all features: the first ones.
    first, last : int
        Range of rows.
    """
    candidates, sizes, slots, log_joints, by_row = spaces
    for i in range(first, last):
        if evaluated[i] == sizes[i]:
            continue
        best = 0
        for k in range(1, evaluated[i]):
            value, largest = log_joints[slots[i, k]], log_joints[slots[i, best]]
            if value > largest or (value == largest and candidates[i, k] < candidates[i, best]):
                best = k
        shift = log_joints[slots[i, best]] - by_row[i, best]
        for k in range(evaluated[i], sizes[i]):
            by_row[i, k] += shift
