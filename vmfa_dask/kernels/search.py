"""Search spaces of rows and their regrouping by component (paper, alg:estep, block 1).

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import Draws, Graph, SearchSpaces
from vmfa_dask.kernels.compile import kernel
from vmfa_dask.kernels.random import RESTING, SEARCH, draw_integer


@kernel
def rows_to_search(resting: Any, every: Any, draws: Draws, out_searched: Any) -> None:
    """Which rows are searched in a pass: those that do not rest, and of the others every `every`-th one.

    Parameters
    ----------
    resting : (n,) uint8
        Rows whose kept components came out of their last search unchanged.
    every : int
        Passes from one search of a resting row to the next.
    draws : Draws
    out_searched : (n,) uint8, out
    """
    seed, iteration, first_row = draws
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
    # Both lists have C' entries and hold a component once, so one direction of the comparison is enough.
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
    graph: Graph,
    n_random: Any,
    draws: Draws,
    first: Any,
    last: Any,
    out_spaces: SearchSpaces,
) -> None:
    """Search space S_n of rows ``first:last``: the neighbours of every kept component and random candidates, each once.

    Paper, eq:GGnSet, where one candidate is random.

    Parameters
    ----------
    components : (n, C') int32
        Kept components K_n, best first, −1 where a row has fewer.
    searched : (n,) uint8
        Of rows that are not searched, the kept components alone are candidates.
    graph : Graph
    n_random : int
        Uniform candidates per row; one that is in the search space already is not replaced.
    draws : Draws
    first, last : int
        Range of rows.
    out_spaces : SearchSpaces, out
        Only `candidates` and `sizes` are written.
    """
    neighbors, neighborhoods, alive = graph
    seed, iteration, first_row = draws
    out_candidates, out_sizes, _, _, _ = out_spaces
    n_components = neighbors.shape[0]
    # The last row that each component was proposed to: nothing has to be cleared between rows.
    seen = np.full(n_components, -1, np.int64)
    for i in range(first, last):
        size = 0
        for k in range(components.shape[1]):
            kept = components[i, k]
            if kept < 0:
                continue
            # Column 0 is the kept component itself: alone, it gives the row's candidates where nothing is searched.
            for g in range(neighborhoods[k] if searched[i] else 1):
                c = neighbors[kept, g]
                # The graph may still name components that were dropped since it was made.
                if c >= 0 and alive[c] and seen[c] != i:
                    seen[c] = i
                    out_candidates[i, size] = c
                    size += 1
        # Without random candidates a row could never reach components that its neighbourhoods do not lead to.
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
        # Entries from sizes[i] on are memory that nothing has written.
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
    # A counting sort: cursors start where the rows of earlier ranges end, so members are in row order however many
    # threads share the rows.
    for i in range(first, last):
        for k in range(sizes[i]):
            c = candidates[i, k]
            slot = next_slot[c]
            next_slot[c] = slot + 1
            out_members[slot] = i
            out_slots[i, k] = slot


@kernel
def count_by_owner(
    components: Any, weights: Any, n_ranks: Any, least: Any, first: Any, last: Any, out_counts: Any
) -> None:
    """Number of rows that each component in ``first:last`` owns: those that keep it with more than `least`.

    Every thread passes over all rows, which are few numbers each: so none needs counters of all C.

    Parameters
    ----------
    components : (n, C') int32
        Kept components, −1 where a row has fewer.
    weights : (n, C') float64
        Their responsibilities.
    n_ranks : int
        Kept components that may own their row: the first ones.
    least : float
        Owners have more than this.
    first, last : int
        Range of components.
    out_counts : (C,) int64, out
        Written for the range.
    """
    out_counts[first:last] = 0
    for i in range(components.shape[0]):
        for k in range(n_ranks):
            c = components[i, k]
            if first <= c and c < last and weights[i, k] > least:
                out_counts[c] += 1


@kernel
def group_by_owner(
    components: Any,
    weights: Any,
    n_ranks: Any,
    least: Any,
    first: Any,
    last: Any,
    next_slot: Any,
    out_members: Any,
    out_weights: Any,
) -> None:
    """The rows that `count_by_owner` has counted, by component, and in order within one.

    Parameters
    ----------
    components, weights, n_ranks, least, first, last
        As there.
    next_slot : (C,) int64, in and out
        Where the first row of each component goes; advanced with each row.
    out_members : (J,) int32, out
        Row numbers.
    out_weights : (J,) float64, out
        Responsibilities.
    """
    for i in range(components.shape[0]):
        for k in range(n_ranks):
            c = components[i, k]
            if first <= c and c < last and weights[i, k] > least:
                slot = next_slot[c]
                next_slot[c] = slot + 1
                out_members[slot] = i
                out_weights[slot] = weights[i, k]
