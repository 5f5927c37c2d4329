"""Dense linear algebra of one component: matrices of H or H + 1 rows, and sums over its features.

Functions that kernels of `parameters` are made of. At these sizes a call of LAPACK costs more than the arithmetic, and
its order of sums is not ours. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, reduction


@reduction
def dot(a: Any, b: Any) -> Any:
    """Σ a_d b_d of two float64 vectors, in the order of the vector registers."""
    total = 0.0
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@inline
def cholesky_in_place(matrix: Any) -> None:
    """Lower Cholesky factor; a pivot that rounding has made non-positive becomes a relative epsilon.

    Parameters
    ----------
    matrix : (H, H) float64, in and out
        Symmetric and positive definite but for rounding; becomes R of RRᵀ, with zeros above the diagonal.
    """
    n = matrix.shape[0]
    for j in range(n):
        scale = matrix[j, j]  # what the remainder is measured against
        for k in range(j):
            matrix[j, j] -= matrix[j, k] * matrix[j, k]
        # The absolute part keeps a matrix of zeros from divisions by zero.
        matrix[j, j] = np.sqrt(max(matrix[j, j], 1e-15 * abs(scale) + 1e-300))
        for i in range(j + 1, n):
            # Columns one after the other: each takes only columns that are finished, so that R replaces the matrix.
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]
            matrix[j, i] = 0.0


@inline
def invert_lower(lower: Any, out_inverse: Any) -> None:
    """R⁻¹ of a lower triangular R, by forward substitution.

    Parameters
    ----------
    lower : (H, H) float64
        R, with a diagonal without zeros.
    out_inverse : (H, H) float64, out
        R⁻¹, zero above the diagonal.
    """
    # The inverse is safe to form: L = I + ΛᵀD⁻¹Λ, so no diagonal element of R is below 1.
    n = lower.shape[0]
    out_inverse[:] = 0.0
    for j in range(n):
        out_inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, n):
            value = 0.0
            for k in range(j, i):
                value -= lower[i, k] * out_inverse[k, j]
            out_inverse[i, j] = value / lower[i, i]


@inline
def solve_transposed(lower: Any, out_vector: Any) -> None:
    """Solve Rᵀy = b for a lower triangular R, by back substitution.

    Parameters
    ----------
    lower : (H, H) float64
        R.
    out_vector : (H,) float64, in and out
        b on entry, y on return.
    """
    n = out_vector.shape[0]
    # From the last entry back, so that y can overwrite b.
    for h in range(n - 1, -1, -1):
        value = out_vector[h]
        for j in range(h + 1, n):
            value -= lower[j, h] * out_vector[j]
        out_vector[h] = value / lower[h, h]


@inline
def invert_independent(matrix: Any, tolerance: Any, out_inverse: Any) -> None:
    """Inverse of a positive semi-definite matrix, restricted to rows and columns that are linearly independent.

    Symmetric sweeps; the next pivot is the one of which most is left, and of equals the last one (in E_c that is N_c,
    which no factor explains).

    Parameters
    ----------
    matrix : (H + 1, H + 1) float64
    tolerance : float
        Part of a diagonal element that must be left when the others are known; below, the row counts as dependent.
    out_inverse : (H + 1, H + 1) float64, out
        Zero in rows and columns of dependent ones.
    """
    # Every element is updated, also those that symmetry would give: H + 1 is a few, and plain loops are short.
    n = matrix.shape[0]
    work = matrix.copy()
    swept = np.zeros(n, np.uint8)
    for _ in range(n):
        pivot, most = -1, tolerance
        for k in range(n - 1, -1, -1):
            if swept[k] == 0 and work[k, k] > most * matrix[k, k]:
                pivot, most = k, work[k, k] / matrix[k, k]
        if pivot < 0:
            break
        # Of E_c, the ratio just found is the part of a factor's second moment that the swept ones do not explain.
        swept[pivot] = 1
        value = work[pivot, pivot]
        # A sweep leaves −1 times the inverse of the swept rows in place, and in the others what those do not explain.
        for i in range(n):
            for j in range(n):
                if i != pivot and j != pivot:
                    work[i, j] -= work[i, pivot] * work[pivot, j] / value
        for i in range(n):
            if i != pivot:
                work[i, pivot] /= value
                work[pivot, i] = work[i, pivot]
        work[pivot, pivot] = -1.0 / value
    for i in range(n):
        for j in range(n):
            out_inverse[i, j] = -work[i, j] if swept[i] == 1 and swept[j] == 1 else 0.0


@reduction
def squared_norm_of_product(a: Any, b: Any) -> Any:
    """Σ (a_d b_d)² in float64, of vectors of any float dtype."""
    total = 0.0
    for d in range(a.shape[0]):
        value = np.float64(a[d]) * b[d]
        total += value * value
    return total


@inline
def combine(matrix: Any, sources: Any, out_rows: Any) -> None:
    """``out_rows = matrix @ sources`` for a small square matrix.

    One simple pass over the features per term: each element has its own sum, so it runs in vectors as it is written.

    Parameters
    ----------
    matrix : (k, k) float64
        Zeros cost nothing beyond column 0.
    sources : (k, D) floats
    out_rows : (k, D) float64, out
        Must not overlap `sources`.
    """
    for h in range(matrix.shape[0]):
        # The first term writes, so that nothing has to be cleared.
        for d in range(sources.shape[1]):
            out_rows[h, d] = matrix[h, 0] * sources[0, d]
        for j in range(1, matrix.shape[1]):
            factor = matrix[h, j]
            # R⁻¹ is triangular, and dependent factors leave whole rows of zeros.
            if factor != 0.0:
                for d in range(sources.shape[1]):
                    out_rows[h, d] += factor * sources[j, d]
