"""Tallies D̃_cc̃ and N_cc̃ of the estimated KL divergences, kept sparse (paper, alg:estep, blocks 2 and 3).

Sparse means: component c owns the entries ``indptr[c]:indptr[c + 1]`` of `ids` (the other component c̃, ascending),
`sums` (D̃_cc̃) and `counts` (N_cc̃). May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import kernel


@kernel
def tally_divergences(
    members: Any,
    indptr: Any,
    candidates: Any,
    sizes: Any,
    slots: Any,
    log_joints: Any,
    references: Any,
    shifts: Any,
    first: Any,
    last: Any,
    offsets: Any,
    out_lengths: Any,
    out_ids: Any,
    out_sums: Any,
    out_counts: Any,
) -> None:
    """Sum ``references[x] − (log p(c̃, x) − shifts[c̃])`` over the rows x of I_c, for each c and each c̃ in G_n.

    With log p(x|c) as reference and log π as shifts this estimates KL divergences (paper, eq:deltaF); with zeros it is
    the negative joint (eq:euclidean_distance).

    Parameters
    ----------
    members : (n,) int32
        Rows regrouped by their best component, I_c (eq:IIPartition_hard).
    indptr : (C + 1,) int64
        Where the rows of each component begin in `members`.
    candidates : (n, S) int32
        Search spaces G_n.
    sizes : (n,) int32
        Number of candidates of each row.
    slots : (n, S) int32 or int64
        Position of each candidate's joint in `log_joints`.
    log_joints : (J,) float64
    references : (n,) float64
        What each row's terms are compared with.
    shifts : (C,) float64
        Subtracted from the joints of a component.
    first, last : int
        Range of components c.
    offsets : (C,) int64
        Where the entries of c begin in the out arrays; as many as c has distinct candidates must fit.
    out_lengths : (C,) int32, out
        Number of entries of each component.
    out_ids : (M,) int32, out
        c̃ of each entry, ascending within a component.
    out_sums : (M,) float64, out
        D̃_cc̃.
    out_counts : (M,) int64, out
        N_cc̃.
    """
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
def add_tallies(
    indptr_a: Any,
    ids_a: Any,
    sums_a: Any,
    counts_a: Any,
    indptr_b: Any,
    ids_b: Any,
    sums_b: Any,
    counts_b: Any,
    out_indptr: Any,
    out_ids: Any,
    out_sums: Any,
    out_counts: Any,
) -> Any:
    """Entry-wise sum of two sparse tallies a and b of the same components.

    Parameters
    ----------
    indptr_a, indptr_b : (B + 1,) int64
        Where the entries of each component begin.
    ids_a, ids_b : int32
        c̃ of each entry, ascending within a component.
    sums_a, sums_b : float64
        D̃_cc̃.
    counts_a, counts_b : int64
        N_cc̃.
    out_indptr : (B + 1,) int64, out
        Entry 0 is left as it is and must be 0.
    out_ids, out_sums, out_counts : as those of a and b, out
        Room for the entries of both.

    Returns
    -------
    int
        Number of entries of the sum.
    """
    n = 0  # a merge of sorted lists, one component after the other
    for c in range(indptr_a.shape[0] - 1):
        a, b = indptr_a[c], indptr_b[c]
        while a < indptr_a[c + 1] or b < indptr_b[c + 1]:
            if b == indptr_b[c + 1] or (a < indptr_a[c + 1] and ids_a[a] < ids_b[b]):
                out_ids[n], out_sums[n], out_counts[n] = ids_a[a], sums_a[a], counts_a[a]
                a += 1
            elif a == indptr_a[c + 1] or ids_b[b] < ids_a[a]:
                out_ids[n], out_sums[n], out_counts[n] = ids_b[b], sums_b[b], counts_b[b]
                b += 1
            else:
                out_ids[n] = ids_a[a]
                out_sums[n] = sums_a[a] + sums_b[b]
                out_counts[n] = counts_a[a] + counts_b[b]
                a += 1
                b += 1
            n += 1
        out_indptr[c + 1] = n
    return n


@kernel
def nearest_components(
    indptr: Any, ids: Any, sums: Any, counts: Any, first_component: Any, old_neighbors: Any, out_neighbors: Any
) -> None:
    """g_c: the component itself and the G − 1 others of smallest D̃_cc̃ / N_cc̃ (paper, eq:GUpdate).

    Ties go to the smaller number. A component that no row prefers keeps its old neighbours: nothing was learned about
    it.

    Parameters
    ----------
    indptr : (B + 1,) int64
        Where the entries of each component of a component block begin.
    ids : (M,) int32
        c̃ of each entry, ascending within a component.
    sums : (M,) float64
        D̃_cc̃.
    counts : (M,) int64
        N_cc̃, positive.
    first_component : int
        Number of the block's first component.
    old_neighbors : (B, G) int32
        Neighbours until now.
    out_neighbors : (B, G) int32, out
        Column 0 is the component itself, the nearest others follow; −1 where fewer are known.
    """
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
