"""Tallies D̃_cc̃ and N_cc̃ of the estimated KL divergences, kept sparse (paper, alg:estep, blocks 2 and 3).

May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import Regrouped, SearchSpaces, Tallies
from vmfa_dask.kernels.compile import kernel


@kernel
def tally_divergences(
    regrouped: Regrouped,
    spaces: SearchSpaces,
    references: Any,
    shifts: Any,
    first: Any,
    last: Any,
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
    out_lengths : (C,) int32, out
        Number of entries of each component.
    out_tallies : Tallies, out
        Entries of c are written from ``indptr[c]`` on, which is read; as many as c has distinct candidates must fit.
    """
    members, indptr = regrouped
    candidates, sizes, slots, log_joints = spaces
    offsets, out_ids, out_sums, out_counts = out_tallies
    n_components = shifts.shape[0]
    # A dense row of all C: an entry is found by one access, and only those that were touched are cleared.
    sums = np.zeros(n_components)
    counts = np.zeros(n_components, np.int64)
    touched = np.empty(n_components, np.int32)
    for c in range(first, last):
        n_touched = 0
        for m in range(indptr[c], indptr[c + 1]):
            i = members[m]
            for k in range(sizes[i]):
                other = candidates[i, k]
                if other == c:  # a component is always its own first neighbour
                    continue
                if counts[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                # One float64 sum per pair of components, over rows in their order: it does not depend on threads.
                sums[other] += references[i] - (log_joints[slots[i, k]] - shifts[other])
                counts[other] += 1
        # Ascending ids make two tallies mergeable in one sweep, and their order independent of that of the rows.
        order = np.sort(touched[:n_touched])
        # Write this component's entries, and clear the dense row for the next one.
        for k in range(n_touched):
            other = order[k]
            out_ids[offsets[c] + k] = other
            out_sums[offsets[c] + k] = sums[other]
            out_counts[offsets[c] + k] = counts[other]
            sums[other] = 0.0
            counts[other] = 0
        out_lengths[c] = n_touched


@kernel
def add_tallies(a: Tallies, b: Tallies, out: Tallies) -> Any:
    """Entry-wise sum of two tallies of the same components.

    Parameters
    ----------
    a, b : Tallies
    out : Tallies, out
        Room for the entries of both. The first entry of its `indptr` is left as it is and must be 0.

    Returns
    -------
    int
        Number of entries of the sum.
    """
    indptr_a, ids_a, sums_a, counts_a = a
    indptr_b, ids_b, sums_b, counts_b = b
    out_indptr, out_ids, out_sums, out_counts = out
    n = 0  # a merge of sorted lists, one component after the other
    for c in range(indptr_a.shape[0] - 1):
        i, j = indptr_a[c], indptr_b[c]
        while i < indptr_a[c + 1] or j < indptr_b[c + 1]:
            if j == indptr_b[c + 1] or (i < indptr_a[c + 1] and ids_a[i] < ids_b[j]):
                out_ids[n], out_sums[n], out_counts[n] = ids_a[i], sums_a[i], counts_a[i]
                i += 1
            elif i == indptr_a[c + 1] or ids_b[j] < ids_a[i]:
                out_ids[n], out_sums[n], out_counts[n] = ids_b[j], sums_b[j], counts_b[j]
                j += 1
            else:
                out_ids[n] = ids_a[i]
                out_sums[n] = sums_a[i] + sums_b[j]
                out_counts[n] = counts_a[i] + counts_b[j]
                i += 1
                j += 1
            n += 1
        out_indptr[c + 1] = n
    return n


@kernel
def nearest_components(tallies: Tallies, first_component: Any, old_neighbors: Any, out_neighbors: Any) -> None:
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
    out_neighbors : (B, G) int32, out
        Column 0 is the component itself, the nearest others follow; −1 where fewer are known.
    """
    indptr, ids, sums, counts = tallies
    n_neighbors = out_neighbors.shape[1]
    nearest = np.empty(n_neighbors)
    for c in range(indptr.shape[0] - 1):
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
