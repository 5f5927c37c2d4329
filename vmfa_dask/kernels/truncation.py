"""Truncation: the C' best components of each row, and their responsibilities (paper, alg:estep, blocks 1 and 4).

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import SearchSpaces, Truncated
from vmfa_dask.kernels.compile import inline, kernel


@inline
def _keep(value: Any, component: Any, n: Any, kept: Any, out_components: Any) -> Any:
    """Insert a log-joint among the n largest, best first; returns their number.

    Ties go to the smaller component, so that the result does not depend on the order of the candidates.
    """
    # C' is a handful: a sorted list beats a heap, and most candidates end at this first comparison.
    n_kept = kept.shape[0]
    if n == n_kept and (value < kept[n - 1] or (value == kept[n - 1] and component > out_components[n - 1])):
        return n
    j = n if n < n_kept else n_kept - 1
    while j > 0 and (value > kept[j - 1] or (value == kept[j - 1] and component < out_components[j - 1])):
        kept[j] = kept[j - 1]
        out_components[j] = out_components[j - 1]
        j -= 1
    kept[j] = value
    out_components[j] = component
    return min(n + 1, n_kept)


@inline
def _normalize(kept: Any, n: Any, best: Any, out_components: Any, out_responsibilities: Any) -> Any:
    """Responsibilities of n kept log-joints, whose largest is `best`; returns the logarithm of the sum of joints."""
    # Relative to the best one, whose exponential is 1: the sum neither overflows nor vanishes.
    total = 0.0
    for k in range(n):
        out_responsibilities[k] = np.exp(kept[k] - best)
        total += out_responsibilities[k]
    for k in range(n):
        out_responsibilities[k] /= total
    for k in range(n, kept.shape[0]):
        out_components[k] = -1
        out_responsibilities[k] = 0.0
    # A row without candidates has no density; whoever takes the result refuses −∞.
    return best + np.log(total) if n > 0 else -np.inf


@kernel
def truncate_all(log_joints: Any, first: Any, last: Any, out: Truncated) -> None:
    """Keep the C' largest log-joints of rows ``first:last``, where every component was evaluated (paper, eq:Knopt).

    Where all C are kept they stay in their own order: sorting them would take longer than evaluating them.

    Parameters
    ----------
    log_joints : (C, n) float64
        −∞ for components that are dropped.
    first, last : int
        Range of rows.
    out : Truncated, out
    """
    out_components, out_responsibilities, out_best, out_free_energy = out
    n_components, n_kept = log_joints.shape[0], out_components.shape[1]
    kept = np.empty(n_kept)
    for i in range(first, last):
        n = 0
        best = -np.inf
        for c in range(n_components):
            value = log_joints[c, i]
            best = max(best, value)
            # All are kept: no order is needed, and the best one is tracked apart.
            if n_kept == n_components:
                kept[n] = value
                out_components[i, n] = c
                n += 1
            elif value > -np.inf:  # a dropped component must not fill up a row's list
                n = _keep(value, c, n, kept, out_components[i])
        out_best[i] = best
        out_free_energy[i] = _normalize(kept, n, best, out_components[i], out_responsibilities[i])


@kernel
def truncate(spaces: SearchSpaces, first: Any, last: Any, out: Truncated) -> None:
    """Keep the C' largest log-joints of rows ``first:last``, best first; ties go to the smaller component.

    Parameters
    ----------
    spaces : SearchSpaces, in and out
        Evaluated candidates; their log-joints by row are written.
    first, last : int
        Range of rows.
    out : Truncated, out
    """
    candidates, sizes, slots, log_joints, by_row = spaces
    out_components, out_responsibilities, out_best, out_free_energy = out
    kept = np.empty(out_components.shape[1])
    for i in range(first, last):
        n = 0
        for k in range(sizes[i]):
            # Slots lead to joints that lie by component: the only access here that is not in order, so what it finds is
            # kept for the tallies.
            by_row[i, k] = log_joints[slots[i, k]]
            n = _keep(by_row[i, k], candidates[i, k], n, kept, out_components[i])
        best = kept[0] if n > 0 else -np.inf
        out_best[i] = best
        out_free_energy[i] = _normalize(kept, n, best, out_components[i], out_responsibilities[i])
