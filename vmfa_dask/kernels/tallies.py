"""Tallies D̃_cc̃ and N_cc̃ of the estimated KL divergences, kept sparse (paper, Algorithm 1, blocks 2 and 3)."""

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
    own: Any,
    shifts: Any,
    first: Any,
    last: Any,
    offsets: Any,
    out_lengths: Any,
    out_ids: Any,
    out_sums: Any,
    out_counts: Any,
) -> None:
    """For components ``first:last``, sum ``own − (log p(c̃, x) − shift)`` over the rows x of I_c, for each c̃ in G_n.

    With log p(x|c) as `own` and log π as `shifts` this estimates KL divergences (paper, eq. deltaF); with zeros it is
    the negative joint (eq. euclidean_distance).

    Parameters
    ----------
    members : (n,) int32 rows grouped by their best component; indptr : (C + 1,) int64
    candidates, slots : (n, S) int32; sizes : (n,) int32; log_joints : (J,) float64
    own : (n,) float64; shifts : (C,) float64
    offsets : (C,) int64, where component c may write (at most its number of candidates)
    out_lengths : (C,) int32; out_ids int32, out_sums float64, out_counts int64: entries of c at ``offsets[c]:``,
        in ascending order of c̃
    """
    n_components = shifts.shape[0]
    sums = np.zeros(n_components)
    counts = np.zeros(n_components, np.int64)
    touched = np.empty(n_components, np.int32)
    for c in range(first, last):
        n_touched = 0
        for m in range(indptr[c], indptr[c + 1]):
            i = members[m]
            for k in range(sizes[i]):
                other = candidates[i, k]
                if other == c:
                    continue
                if counts[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                sums[other] += own[i] - (log_joints[slots[i, k]] - shifts[other])
                counts[other] += 1
        order = np.sort(touched[:n_touched])
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
    """Entry-wise sum of two sparse tallies with ascending ids per component; returns the number of entries."""
    n = 0
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
    """g_c: the component itself and the G − 1 others of smallest D̃_cc̃ / N_cc̃; ties go to the smaller number.

    Arrays are those of a block of components that starts at `first_component`. A component that no row prefers keeps
    its old neighbours: nothing was learned about it. Entries that stay free are -1.
    """
    n_neighbors = out_neighbors.shape[1]
    nearest = np.empty(n_neighbors)
    for c in range(indptr.shape[0] - 1):
        if indptr[c] == indptr[c + 1]:
            out_neighbors[c] = old_neighbors[c]
            continue
        out_neighbors[c, 0] = first_component + c
        n = 1
        for k in range(indptr[c], indptr[c + 1]):
            value = sums[k] / counts[k]
            if n_neighbors == 1 or (n == n_neighbors and value >= nearest[n - 1]):
                continue
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
