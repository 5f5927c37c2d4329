"""Factor means of rows under components, and the rows that follow from them.

Paper, eq:z_gauss_params and zero-eq:deri4. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import PackedParameters, Regrouped, RowPairs
from vmfa_dask.kernels.compile import kernel
from vmfa_dask.kernels.linear_algebra import solve_transposed
from vmfa_dask.kernels.log_joints import project_rows


@kernel
def factor_means(
    rows: Any, regrouped: Regrouped, first: Any, last: Any, parameters: PackedParameters, out_factors: Any
) -> None:
    """Factor means z = R⁻ᵀWt under components ``first:last``, for the rows of each (paper, eq:z_gauss_params).

    Parameters
    ----------
    rows : (n, D), any real dtype
    regrouped : Regrouped
        Rows of each component, K pairs in all.
    first, last : int
        Range of components.
    parameters : PackedParameters
    out_factors : (K, H) float64, out
        Written for the given components only.
    """
    members, indptr = regrouped
    packed, _, precise_slot, _, packed_precise, cholesky, factors, tile = parameters
    n_factors = len(factors)
    for c in range(first, last):
        ids = members[indptr[c] : indptr[c + 1]]
        if ids.shape[0] == 0:
            continue
        sums = np.empty((ids.shape[0], n_factors + 1))
        # No distance is at hand that would tell which rows lose digits: an ill-conditioned component takes float64 for
        # all.
        if precise_slot[c] < 0:
            project_rows(rows, ids, packed[c], factors, tile, sums)
        else:
            project_rows(rows, ids, packed_precise[precise_slot[c]], factors, tile, sums)
        for i in range(ids.shape[0]):
            # Column 0 is the quadratic form. The others turn from Wt into z in place.
            solve_transposed(cholesky[c], sums[i, 1:])
            out_factors[indptr[c] + i] = sums[i, 1:]


@kernel
def expected_rows(pairs: RowPairs, means: Any, loadings: Any, first: Any, last: Any, out_rows: Any) -> None:
    """Σ_c p(c|x)(Λ_c z_c + μ_c) of rows ``first:last`` (paper, zero-eq:deri4).

    Parameters
    ----------
    pairs : RowPairs
        Terms of each row; they are added in their order.
    means : (C, D) float32 or float64
    loadings : (C, H, D), same dtype
    first, last : int
        Range of rows.
    out_rows : (n, D) float64, out
    """
    indptr, components, probabilities, factors = pairs
    n_features = means.shape[1]
    # Row after row: few components count for one, and no two threads write to it.
    for i in range(first, last):
        row = out_rows[i]
        row[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            c, p = components[k], probabilities[k]
            mean = means[c]
            # Mean and factors are added to the row as they come: Λz + μ needs no memory of its own.
            for d in range(n_features):
                row[d] += p * mean[d]
            for h in range(factors.shape[1]):
                weight, loading = p * factors[k, h], loadings[c, h]
                for d in range(n_features):
                    row[d] += weight * loading[d]
