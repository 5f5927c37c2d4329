"""Search spaces of rows, their regrouping by component, and the truncation that follows.

Paper, alg:estep, blocks 1 and 4. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, kernel
from vmfa_dask.kernels.random import RESTING, SEARCH, draw_integer


@kernel
def rows_to_search(resting: Any, every: Any, seed: Any, iteration: Any, first_row: Any, out_searched: Any) -> None:
    """Which rows are searched in a pass: those that do not rest, and of the others every `every`-th one.

    Parameters
    ----------
    resting : (n,) uint8
        Rows whose kept components came out of their last search unchanged.
    every : int
        Passes from one search of a resting row to the next.
    seed, iteration : int
        Seed of the run and number of the pass.
    first_row : int
        Global number of row 0.
    out_searched : (n,) uint8, out
    """
    # A hash of the row's number spreads rows over passes evenly, whatever order they come in.
    for i in range(resting.shape[0]):
        turn = draw_integer(seed, RESTING, 0, first_row + i, 0, every)
        out_searched[i] = resting[i] == 0 or (iteration + turn) % every == 0


@kernel
def unchanged_rows(components: Any, updated: Any, out_resting: Any) -> None:
    """Rows that rest from now on: those whose set of kept components is the same as before.

    Rows that rest already are evaluated on their set alone, so that it stays the same, until one of its components is
    dropped.

    Parameters
    ----------
    components, updated : (n, C') int32
        Kept components before and after the pass, in any order, −1 where a row has fewer.
    out_resting : (n,) uint8, out
    """
    for i in range(components.shape[0]):
        unchanged = True
        for k in range(components.shape[1]):
            is_kept = False
            for j in range(updated.shape[1]):
                is_kept = is_kept or components[i, k] == updated[i, j]
            unchanged = unchanged and is_kept
        out_resting[i] = unchanged


@kernel
def search_spaces(
    components: Any,
    searched: Any,
    neighbors: Any,
    neighborhoods: Any,
    alive: Any,
    first: Any,
    last: Any,
    n_random: Any,
    seed: Any,
    iteration: Any,
    first_row: Any,
    out_candidates: Any,
    out_sizes: Any,
) -> None:
    """Search space G_n of rows ``first:last``: the neighbours of every kept component and random candidates, each once.

    Paper, eq:GGnSet, where one candidate is random.

    Parameters
    ----------
    components : (n, C') int32
        Kept components K_n, best first, −1 where a row has fewer.
    searched : (n,) uint8
        Of rows that are not searched, the kept components alone are candidates.
    neighbors : (C, G) int32
        g_c, the component itself in column 0, −1 pads.
    neighborhoods : (C',) int64
        How many entries of its row in `neighbors` the component of each rank proposes.
    alive : (C,) bool
        Components that may be proposed.
    first, last : int
        Range of rows.
    n_random : int
        Uniform candidates per row; one that is in the search space already is not replaced.
    seed, iteration : int
        Seed of the run and number of the pass.
    first_row : int
        Global number of row 0 of this row block, the key of its draws.
    out_candidates : (n, S) int32, out
        The first ``out_sizes[i]`` entries of row i are written.
    out_sizes : (n,) int32, out
    """
    n_components = neighbors.shape[0]
    # The last row that each component was proposed to: nothing has to be cleared between rows.
    seen = np.full(n_components, -1, np.int64)
    for i in range(first, last):
        size = 0
        for k in range(components.shape[1]):
            kept = components[i, k]
            if kept < 0:
                continue
            for g in range(neighborhoods[k] if searched[i] else 1):
                c = neighbors[kept, g]
                if c >= 0 and alive[c] and seen[c] != i:
                    seen[c] = i
                    out_candidates[i, size] = c
                    size += 1
        for draw in range(n_random if searched[i] else 0):
            c = draw_integer(seed, SEARCH, iteration, first_row + i, draw, n_components)
            if alive[c] and seen[c] != i:
                seen[c] = i
                out_candidates[i, size] = c
                size += 1
        out_sizes[i] = size


@kernel
def count_by_component(candidates: Any, sizes: Any, first: Any, last: Any, out_counts: Any) -> None:
    """Number of rows in ``first:last`` that ask for each component.

    Parameters
    ----------
    candidates : (n, S) int32
    sizes : (n,) int32
    first, last : int
        Range of rows.
    out_counts : (C,) int64, in and out
        Counts are added to it.
    """
    for i in range(first, last):
        for k in range(sizes[i]):
            out_counts[candidates[i, k]] += 1


@kernel
def group_by_component(
    candidates: Any, sizes: Any, first: Any, last: Any, next_slot: Any, out_members: Any, out_slots: Any
) -> None:
    """Transpose rows × candidates to components × rows; rows of a component stay in order.

    Parameters
    ----------
    candidates : (n, S) int32
    sizes : (n,) int32
    first, last : int
        Range of rows.
    next_slot : (C,) int64, in and out
        Where the first row of this range that asks for a component goes; advanced with each row.
    out_members : (J,) int32, out
        Row numbers.
    out_slots : (n, S) int32 or int64, out
        Position of each row and candidate in `out_members`.
    """
    for i in range(first, last):
        for k in range(sizes[i]):
            c = candidates[i, k]
            slot = next_slot[c]
            next_slot[c] = slot + 1
            out_members[slot] = i
            out_slots[i, k] = slot


@inline
def _keep(value: Any, component: Any, n: Any, kept: Any, out_components: Any) -> Any:
    """Insert a log-joint among the n largest, best first; returns their number.

    Ties go to the smaller component, so that the result does not depend on the order of the candidates.
    """
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
    return best + np.log(total) if n > 0 else -np.inf


@kernel
def truncate_all(
    log_joints: Any,
    first: Any,
    last: Any,
    out_components: Any,
    out_responsibilities: Any,
    out_best: Any,
    out_free_energy: Any,
) -> None:
    """Keep the C' largest log-joints of rows ``first:last``, where every component was evaluated (paper, eq:Knopt).

    Where all C are kept they stay in their own order: sorting them would take longer than evaluating them.

    Parameters
    ----------
    log_joints : (C, n) float64
        −∞ for components that are dropped.
    first, last : int
        Range of rows.
    out_components, out_responsibilities, out_best, out_free_energy
        As in `truncate`, out.
    """
    n_components, n_kept = log_joints.shape[0], out_components.shape[1]
    kept = np.empty(n_kept)
    for i in range(first, last):
        n = 0
        best = -np.inf
        for c in range(n_components):
            value = log_joints[c, i]
            best = max(best, value)
            if n_kept == n_components:
                kept[n] = value
                out_components[i, n] = c
                n += 1
            elif value > -np.inf:
                n = _keep(value, c, n, kept, out_components[i])
        out_best[i] = best
        out_free_energy[i] = _normalize(kept, n, best, out_components[i], out_responsibilities[i])


@kernel
def truncate(
    candidates: Any,
    sizes: Any,
    slots: Any,
    log_joints: Any,
    first: Any,
    last: Any,
    out_components: Any,
    out_responsibilities: Any,
    out_best: Any,
    out_free_energy: Any,
) -> None:
    """Keep the C' largest log-joints of rows ``first:last``, best first; ties go to the smaller component.

    Paper, alg:estep: K_n of block 1, and the responsibilities of block 4.

    Parameters
    ----------
    candidates : (n, S) int32
    sizes : (n,) int32
    slots : (n, S) int32 or int64
        Position of each candidate's joint in `log_joints`.
    log_joints : (J,) float64
    first, last : int
        Range of rows.
    out_components : (n, C') int32, out
        K_n, −1 where a row has fewer candidates.
    out_responsibilities : (n, C') float64, out
        Normalised over the kept ones.
    out_best : (n,) float64, out
        Largest log-joint.
    out_free_energy : (n,) float64, out
        log Σ_{c in K_n} p(c, x), the row's term of the free energy (paper, eq:FEShort).
    """
    kept = np.empty(out_components.shape[1])
    for i in range(first, last):
        n = 0
        for k in range(sizes[i]):
            n = _keep(log_joints[slots[i, k]], candidates[i, k], n, kept, out_components[i])
        best = kept[0] if n > 0 else -np.inf
        out_best[i] = best
        out_free_energy[i] = _normalize(kept, n, best, out_components[i], out_responsibilities[i])
