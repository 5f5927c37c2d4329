"""Tallies D̃_cc̃ and N_cc̃ of the estimated KL divergences, kept sparse (paper, alg:estep, blocks 2 and 3).

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import Regrouped, SearchSpaces, Tallies
from vmfa_dask.kernels.bits import sort_distinct
from vmfa_dask.kernels.compile import inline, kernel


@kernel
def tally_divergences(
    regrouped: Regrouped,
    spaces: SearchSpaces,
    references: Any,
    shifts: Any,
    first: Any,
    last: Any,
    begin: Any,
    out_lengths: Any,
    out_tallies: Tallies,
) -> None:
    """Sum ``references[x] − (log p(c̃, x) − shifts[c̃])`` over the rows x of I_c, for each c and each c̃ in S_n.

    With log p(x|c) as reference and log π as shifts this estimates KL divergences (paper, eq:deltaF); with zeros it is
    the negative joint (eq:euclidean_distance).

    Parameters
    ----------
    regrouped : Regrouped
        Rows of each best component, I_c (eq:IIPartition_hard).
    spaces : SearchSpaces
        Evaluated candidates.
    references : (n,) float64
        What each row's terms are compared with.
    shifts : (C,) float64
        Subtracted from the joints of a component.
    first, last : int
        Range of components c.
    begin : int
        Where their entries begin, one component after the other; as many as their rows have candidates must fit.
    out_lengths : (C,) int64, out
        Number of entries of each component.
    out_tallies : Tallies, out
        Entries of a component are in the order in which its rows meet them. `indptr` is neither read nor written.
    """
    members, indptr = regrouped
    candidates, sizes, _, _, by_row = spaces
    _, out_ids, out_sums, out_counts = out_tallies
    # Where the entry of each component lies, from the first one of c: one access finds it, whatever their number.
    entries = np.full(shifts.shape[0], -1, np.int32)
    base = begin
    for c in range(first, last):
        n = 0
        for m in range(indptr[c], indptr[c + 1]):
            i = members[m]
            for k in range(sizes[i]):
                other = candidates[i, k]
                if other == c:  # a component is always its own first neighbour
                    continue
                value = references[i] - (by_row[i, k] - shifts[other])
                entry = entries[other]
                if entry < 0:
                    entries[other] = n
                    out_ids[base + n], out_sums[base + n], out_counts[base + n] = other, value, 1
                    n += 1
                else:
                    # One float64 sum per pair of components, over rows in their order: it does not depend on threads.
                    out_sums[base + entry] += value
                    out_counts[base + entry] += 1
        for k in range(n):
            entries[out_ids[base + k]] = -1
        out_lengths[c] = n
        base += n


@inline
def _worst_kept(means: Any, most: Any) -> Any:
    """The `most`-th smallest mean, and how many entries of just this mean are among the `most` smallest."""
    worst = np.partition(means, most - 1)[most - 1]
    n_smaller = 0
    for mean in means:
        n_smaller += mean < worst
    return worst, most - n_smaller


@kernel
def merge_tallies(parts: Tallies, n_components: Any, most: Any, out: Tallies) -> Any:
    """Entry-wise sum of several tallies of the same components, cut to the smallest mean divergences.

    Parameters
    ----------
    parts : Tallies
        The summands; `indptr` is (P, B + 1), a row per part, and ids are in any order.
    n_components : int
        C.
    most : int
        Entries to keep of each component: those of the smallest D̃_cc̃ / N_cc̃, and of equal ones those of the smaller
        numbers.
    out : Tallies, out
        Room for the entries of all parts, or for `most` of each component if that is less. Ids are ascending.

    Returns
    -------
    int
        Number of entries of the sum.
    """
    indptr, ids, sums, counts = parts
    out_indptr, out_ids, out_sums, out_counts = out
    n_parts, n_summed = indptr.shape[0], indptr.shape[1] - 1
    widest = 0
    for c in range(n_summed):
        n = 0
        for part in range(n_parts):
            n += indptr[part, c + 1] - indptr[part, c]
        widest = max(widest, n)
    entries = np.full(n_components, -1, np.int32)  # as in `tally_divergences`
    touched, kept = np.empty(widest, np.int32), np.empty(widest, np.int32)
    totals, numbers = np.empty(widest), np.empty(widest, np.int64)
    words = np.zeros(n_components // 64 + 1, np.uint64)
    groups = np.zeros(words.shape[0] // 64 + 1, np.uint64)
    n_out = 0
    out_indptr[0] = 0
    for c in range(n_summed):
        n = 0
        # Parts in their order, so that each sum is ((a + b) + c) + ...
        for part in range(n_parts):
            for k in range(indptr[part, c], indptr[part, c + 1]):
                entry = entries[ids[k]]
                if entry < 0:
                    entries[ids[k]] = n
                    touched[n], totals[n], numbers[n] = ids[k], sums[k], counts[k]
                    n += 1
                else:
                    totals[entry] += sums[k]
                    numbers[entry] += counts[k]
        worst, n_ties = np.inf, n
        if n > most:
            worst, n_ties = _worst_kept(totals[:n] / numbers[:n], most)
        n_kept = 0
        for k in range(n):
            if n <= most or totals[k] / numbers[k] <= worst:
                kept[n_kept] = touched[k]
                n_kept += 1
            else:
                entries[touched[k]] = -1
        # Ascending ids give ties to the smaller number, and an order that is independent of that of the rows.
        sort_distinct(kept[:n_kept], words, groups)
        for other in kept[:n_kept]:
            entry = entries[other]
            entries[other] = -1
            if n > most and totals[entry] / numbers[entry] == worst:
                if n_ties == 0:
                    continue
                n_ties -= 1
            out_ids[n_out], out_sums[n_out], out_counts[n_out] = other, totals[entry], numbers[entry]
            n_out += 1
        out_indptr[c + 1] = n_out
    return n_out


@kernel
def nearest_components(
    tallies: Tallies, first_component: Any, old_neighbors: Any, first: Any, last: Any, out_neighbors: Any
) -> None:
    """g_c: the component itself and the G − 1 others of smallest D̃_cc̃ / N_cc̃ (paper, eq:GUpdate).

    Ties go to the smaller number. A component that no row prefers keeps its old neighbours: nothing was learned about
    it.

    Parameters
    ----------
    tallies : Tallies
        Of a component block.
    first_component : int
        Number of the block's first component.
    old_neighbors : (B, G) int32
        Neighbours until now.
    first, last : int
        Range of components of the block.
    out_neighbors : (B, G) int32, out
        Column 0 is the component itself, the nearest others follow; −1 where fewer are known.
    """
    indptr, ids, sums, counts = tallies
    n_neighbors = out_neighbors.shape[1]
    nearest = np.empty(n_neighbors)
    for c in range(first, last):
        if indptr[c] == indptr[c + 1]:
            out_neighbors[c] = old_neighbors[c]
            continue
        # nearest[0] stays unset: column 0 is never compared with.
        out_neighbors[c, 0] = first_component + c
        n = 1
        for k in range(indptr[c], indptr[c + 1]):
            value = sums[k] / counts[k]
            if n_neighbors == 1 or (n == n_neighbors and value >= nearest[n - 1]):
                continue
            # Insertion into a sorted list of G: G is small. Only a strictly smaller value moves ahead, which gives ties
            # to the smaller number, as ids ascend.
            j = n if n < n_neighbors else n_neighbors - 1
            while j > 1 and value < nearest[j - 1]:
                nearest[j] = nearest[j - 1]
                out_neighbors[c, j] = out_neighbors[c, j - 1]
                j -= 1
            nearest[j] = value
            out_neighbors[c, j] = ids[k]
            n = min(n + 1, n_neighbors)
        for k in range(n, n_neighbors):
            out_neighbors[c, k] = -1
