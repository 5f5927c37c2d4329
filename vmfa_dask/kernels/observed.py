"""Rows with missing values: log-joints of what is observed, and the expectation of what is not.

The marginal of a factor analyzer over some features is a factor analyzer with the parameters of these features. So each
pattern of observed features o has an H x H matrix of its own, L_o = I + Λ_oᵀD_o⁻¹Λ_o (Woodbury as in the paper,
appendix:EfficientEvaluationMFAs), and the factor means given x_o are z = L_o⁻¹Λ_oᵀD_o⁻¹(x_o − μ_o). Everything is
computed in float64, whatever the dtype of the parameters. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import ObservedRows, Parameters
from vmfa_dask.kernels.compile import inline, kernel
from vmfa_dask.kernels.linear_algebra import cholesky_in_place, dot

# Part of Σ t²/σ² below which a distance has lost half of its digits as a difference, and is computed from residuals.
_CANCELLED = 1e-8
# A component that is less probable than this moves no completed value: float64 has 16 digits.
_NEGLIGIBLE = 1e-18


@inline
def solve_cholesky(cholesky: Any, right: Any, out_half: Any, out_solution: Any) -> None:
    """Solve RRᵀz = b.

    Parameters
    ----------
    cholesky : (H, H) float64
        R, lower.
    right : (H,) float64
        b.
    out_half : (H,) float64, out
        R⁻¹b, whose squared norm is bᵀ(RRᵀ)⁻¹b.
    out_solution : (H,) float64, out
        z.
    """
    n = right.shape[0]
    for h in range(n):
        value = right[h]
        for j in range(h):
            value -= cholesky[h, j] * out_half[j]
        out_half[h] = value / cholesky[h, h]
    for h in range(n - 1, -1, -1):
        value = out_half[h]
        for j in range(h + 1, n):
            value -= cholesky[j, h] * out_solution[j]
        out_solution[h] = value / cholesky[h, h]


@kernel
def observed_log_joints(
    rows: ObservedRows,
    parameters: Parameters,
    log_weights: Any,
    first: Any,
    last: Any,
    out_log_joints: Any,
    out_factors: Any,
) -> None:
    """Log-joints log p(c, x_o) and factor means of all rows under components ``first:last``, in O(n·D·H) each.

    Parameters
    ----------
    rows : ObservedRows
        Each pattern costs O(D·H²) per component.
    parameters : Parameters
    log_weights : (C,) float64
        log π; −∞ for dropped components.
    first, last : int
        Range of components.
    out_log_joints : (C, n) float64, out
        −∞ where a density is below what float64 holds.
    out_factors : (C, n, H) float64, out
        z; not finite where the log-joint is −∞ by overflow.
    """
    values, observed, indptr, columns = rows
    means, loadings, noise_variances = parameters
    n_factors, n_columns = loadings.shape[1], columns.shape[0]
    center, inverse, log_variances = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    whitened, masked = np.empty((n_factors, n_columns)), np.empty((n_factors, n_columns))
    gram, t = np.empty((n_factors, n_factors)), np.empty(n_columns)
    projected, half, factors = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    # Components outside: roots and logarithms are taken once for all patterns, and whitened loadings stay in the cache.
    for c in range(first, last):
        for k in range(n_columns):
            variance = np.float64(noise_variances[c, columns[k]])
            center[k] = means[c, columns[k]]
            inverse[k] = 1.0 / np.sqrt(variance)
            log_variances[k] = np.log(variance)
        for h in range(n_factors):
            for k in range(n_columns):
                whitened[h, k] = loadings[c, h, columns[k]] * inverse[k]
        for p in range(observed.shape[0]):
            pattern = observed[p]
            # Patterns are ones and zeros in float64: a sum over observed features is a product without branches.
            log_determinant = dot(pattern, log_variances)
            for h in range(n_factors):
                for k in range(n_columns):
                    masked[h, k] = whitened[h, k] * pattern[k]
                # Both sides of the product are masked, as masked loadings are what the rows below are projected on.
                for j in range(h + 1):
                    gram[h, j] = dot(masked[h], masked[j])
                    gram[j, h] = gram[h, j]
                gram[h, h] += 1.0
            cholesky_in_place(gram)
            for h in range(n_factors):
                log_determinant += 2.0 * np.log(gram[h, h])
            n_observed = dot(pattern, pattern)
            log_norm = log_weights[c] - 0.5 * (n_observed * np.log(2.0 * np.pi) + log_determinant)
            for i in range(indptr[p], indptr[p + 1]):
                # Missing values are some finite number, which the pattern turns to zero.
                for k in range(n_columns):
                    t[k] = (values[i, k] - center[k]) * inverse[k] * pattern[k]
                for h in range(n_factors):
                    projected[h] = dot(masked[h], t)
                solve_cholesky(gram, projected, half, factors)
                squares = dot(t, t)
                distance = squares - dot(half, half)
                if distance < _CANCELLED * squares:  # the row lies along the factors: a sum of squares cannot cancel
                    for h in range(n_factors):
                        for k in range(n_columns):
                            t[k] -= factors[h] * masked[h, k]
                    distance = dot(t, t) + dot(factors, factors)
                # Overflow leaves ∞, or ∞ − ∞.
                out_log_joints[c, i] = log_norm - 0.5 * distance if distance < np.inf else -np.inf
                for h in range(n_factors):
                    out_factors[c, i, h] = factors[h]


@kernel
def expected_rows(
    responsibilities: Any, factors: Any, parameters: Parameters, first: Any, last: Any, out_rows: Any
) -> None:
    """Σ_c p(c | x_o)(μ_c + Λ_c z_c) of rows ``first:last``: where a value is missing, its expectation given the others.

    Parameters
    ----------
    responsibilities : (C, n) float64
        p(c | x_o).
    factors : (C, n, H) float64
        Factor means z, from `observed_log_joints`.
    parameters : Parameters
    first, last : int
        Range of rows.
    out_rows : (n, D) float64, out
        Relative to the offset.
    """
    means, loadings, _ = parameters
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    for i in range(first, last):
        out_rows[i] = 0.0
        for c in range(means.shape[0]):
            responsibility = responsibilities[c, i]
            # Also keeps out components whose density is 0 by overflow, as their factors may be NaN, and 0 · NaN is NaN.
            if responsibility > _NEGLIGIBLE:
                for d in range(n_features):
                    out_rows[i, d] += responsibility * means[c, d]
                for h in range(n_factors):
                    factor = responsibility * factors[c, i, h]
                    for d in range(n_features):
                        out_rows[i, d] += factor * loadings[c, h, d]
