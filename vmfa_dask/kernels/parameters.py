"""Per-component linear algebra: what a model version is evaluated with, and the M-step (paper, its appendix).

May import: numpy, numba, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.compile import inline, kernel, reduction
from vmfa_dask.kernels.streams import finish_streams, stream, stream_vector

# Part of a diagonal element of E_c that must be left when the other factors are known: below, rounding of the moments
# (sums of up to 256 rows in the precision of the run) would be most of the solution.
_INDEPENDENT_FLOAT32 = 1e-5
_INDEPENDENT_FLOAT64 = 1e-13


@reduction
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@inline
def _cholesky(matrix: Any) -> None:
    """Lower Cholesky factor in place. A pivot that rounding has made non-positive becomes a relative epsilon."""
    n = matrix.shape[0]
    for j in range(n):
        scale = matrix[j, j]
        for k in range(j):
            matrix[j, j] -= matrix[j, k] * matrix[j, k]
        matrix[j, j] = np.sqrt(max(matrix[j, j], 1e-15 * abs(scale) + 1e-300))
        for i in range(j + 1, n):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]
            matrix[j, i] = 0.0


@inline
def _inverse_of_lower(lower: Any, out_inverse: Any) -> None:
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
def _inverse_of_independent(matrix: Any, tolerance: Any, out_inverse: Any) -> None:
    """Inverse of a positive semi-definite matrix, restricted to rows and columns that are linearly independent.

    Symmetric sweeps; the next pivot is the one of which most is left, the last one first. Where less than `tolerance`
    of a diagonal element is left its row and column of out_inverse are zero.
    """
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
        swept[pivot] = 1
        value = work[pivot, pivot]
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
def _squared_norm_of_product(a: Any, b: Any) -> Any:
    total = 0.0
    for d in range(a.shape[0]):
        value = np.float64(a[d]) * b[d]
        total += value * value
    return total


@kernel
def factorize(
    means: Any,
    loadings: Any,
    noise_variances: Any,
    weights: Any,
    first: Any,
    last: Any,
    out_cholesky: Any,
    out_log_norms: Any,
    out_conditions: Any,
    out_shifts: Any,
) -> None:
    """R with L = I + ΛᵀD⁻¹Λ = RRᵀ, the log-normaliser, tr(ΛᵀD⁻¹Λ) and ‖μ/σ‖, of ``first:last``, all in float64.

    means (C, D), loadings (C, H, D), noise_variances (C, D), weights (C,); out_cholesky (C, H, H), out_log_norms (C,) =
    log π − ½(D log 2π + log|L| + Σ log σ²), out_conditions (C,): how much Σ t²/σ² exceeds the distance it leads to,
    out_shifts (C,): what is rounded when μ/σ is.
    """
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    whitened = np.empty((n_factors, n_features))
    deviation = np.empty(n_features)
    for c in range(first, last):
        log_determinant = 0.0
        gram = out_cholesky[c]
        gram[:] = 0.0
        for d in range(n_features):
            deviation[d] = 1.0 / np.sqrt(np.float64(noise_variances[c, d]))
        # One logarithm for up to four features, while their product is far from the ends of float64's range. Its branch
        # would keep the roots out of vector registers.
        product = 1.0
        for d in range(n_features):
            product *= np.float64(noise_variances[c, d])
            if d % 4 == 3 or d == n_features - 1 or not 1e-100 < product < 1e100:
                log_determinant += np.log(product)
                product = 1.0
        for h in range(n_factors):
            for d in range(n_features):
                whitened[h, d] = loadings[c, h, d] * deviation[d]
            for j in range(h + 1):
                gram[h, j] = _dot(whitened[h], whitened[j])
                gram[j, h] = gram[h, j]
        condition = 0.0
        for h in range(n_factors):
            condition += gram[h, h]
            gram[h, h] += 1.0
        _cholesky(gram)
        for h in range(n_factors):
            log_determinant += 2.0 * np.log(gram[h, h])
        out_conditions[c] = condition
        out_shifts[c] = np.sqrt(_squared_norm_of_product(means[c], deviation))
        log_weight = np.log(weights[c]) if weights[c] > 0.0 else -np.inf
        out_log_norms[c] = log_weight - 0.5 * (n_features * np.log(2.0 * np.pi) + log_determinant)


@inline
def _combine(matrix: Any, sources: Any, out_rows: Any) -> None:
    """``out_rows = matrix @ sources`` for a small square matrix; one simple pass over the features per term."""
    for h in range(matrix.shape[0]):
        for d in range(sources.shape[1]):
            out_rows[h, d] = matrix[h, 0] * sources[0, d]
        for j in range(1, matrix.shape[1]):
            factor = matrix[h, j]
            if factor != 0.0:
                for d in range(sources.shape[1]):
                    out_rows[h, d] += factor * sources[j, d]


@kernel
def pack(
    means: Any,
    loadings: Any,
    noise_variances: Any,
    cholesky: Any,
    which: Any,
    first: Any,
    last: Any,
    out_packed: Any,
) -> None:
    """Packed parameters (see `projections`) of components ``which[first:last]`` in the dtype of out_packed.

    out_packed (len(which), blocks, H + 2, lanes), whose last axis is a vector register; features beyond D are zero.
    Wσ = R⁻¹ΛᵀD⁻¹σ is formed in float64; μ/σ takes 1/σ as it is rounded in out_packed, so that rounding moves a mean,
    but does not add to the distance of a row that lies on it.
    """
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    n_blocks, n_lanes = out_packed.shape[1], out_packed.shape[3]
    flat = np.zeros((n_factors + 2, n_blocks * n_lanes))
    scaled = np.empty((n_factors, n_features))
    inverse = np.empty((n_factors, n_factors))
    rounded = np.empty(n_features, out_packed.dtype)
    for k in range(first, last):
        c = which[k]
        for d in range(n_features):
            rounded[d] = 1.0 / np.sqrt(np.float64(noise_variances[c, d]))
        for d in range(n_features):
            flat[0, d] = -np.float64(means[c, d]) * rounded[d]
            flat[1, d] = rounded[d]
        if n_factors > 0:
            _inverse_of_lower(cholesky[c], inverse)
            for h in range(n_factors):
                for d in range(n_features):
                    scaled[h, d] = loadings[c, h, d] * flat[1, d]
            _combine(inverse, scaled, flat[2:])
        target = out_packed[k].reshape(-1)
        for block in range(n_blocks):
            for h in range(n_factors + 2):
                stream_vector(flat[h], block * n_lanes, target, (block * (n_factors + 2) + h) * n_lanes)
    finish_streams()


@kernel
def add_posterior_covariances(cholesky: Any, counts: Any, out_factor_moments: Any) -> None:
    """E_c += N_c L_c⁻¹ in its first H rows and columns: the covariance of the factors given a row."""
    n_factors = cholesky.shape[1]
    inverse = np.empty((n_factors, n_factors))
    for c in range(cholesky.shape[0]):
        _inverse_of_lower(cholesky[c], inverse)
        for h in range(n_factors):
            for j in range(n_factors):
                value = 0.0
                for k in range(n_factors):
                    value += inverse[k, h] * inverse[k, j]
                out_factor_moments[c, h, j] += counts[c] * value


@kernel
def maximize(
    counts: Any,
    factor_moments: Any,
    moments: Any,
    means: Any,
    loadings: Any,
    noise_variances: Any,
    floors: Any,
    out_means: Any,
    out_loadings: Any,
    out_noise_variances: Any,
) -> None:
    """Λ̂_c = Y_c E_c⁻¹ and σ²_c of the M-step, for a block of components.

    A component that owns fewer rows than H + 1 can have an E_c that is singular to rounding; then factors that depend
    on the others get no loadings. (Inverted all the same, rounding of Y_c grew to loadings of 1e13 and to densities of
    e^1e15.)

    Parameters
    ----------
    counts : (B,) float64, N_c; a component without rows keeps its parameters
    factor_moments : (B, H + 1, H + 1) float64, E_c
    moments : (B, H + 2, D) float64, Σ q t², Σ q t, Σ q z_h t, centred on `means`
    means, loadings, noise_variances : parameters that the moments belong to
    floors : (D,) float64, smallest noise variance of each feature
    out_means, out_loadings, out_noise_variances : (B, D), (B, H, D), (B, D)
    """
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    solution = np.empty((n_factors + 1, n_features))
    explained = np.empty(n_features)
    rolled = np.empty((n_factors + 1, n_factors + 1))
    inverse = np.empty((n_factors + 1, n_factors + 1))
    tolerance = _INDEPENDENT_FLOAT32 if means.itemsize == 4 else _INDEPENDENT_FLOAT64
    for c in range(counts.shape[0]):
        if counts[c] <= 0.0:
            out_means[c], out_loadings[c], out_noise_variances[c] = means[c], loadings[c], noise_variances[c]
            continue
        _inverse_of_independent(factor_moments[c], tolerance, inverse)
        # moments[c, 1:] is Σ q t, Σ q z_1 t, … while ẑ = (z, 1): roll the inverse to that order.
        for h in range(n_factors + 1):
            rolled[(h + 1) % (n_factors + 1)] = inverse[h]
        for h in range(n_factors + 1):
            for j in range(n_factors + 1):
                inverse[h, (j + 1) % (n_factors + 1)] = rolled[h, j]
        _combine(inverse, moments[c, 1:], solution)
        explained[:] = 0.0
        for h in range(n_factors + 1):
            for d in range(n_features):
                explained[d] += moments[c, 1 + h, d] * solution[h, d]
        for d in range(n_features):
            solution[0, d] += means[c, d]
            explained[d] = max((moments[c, 0, d] - explained[d]) / counts[c], floors[d])
        stream(solution[0], out_means[c])
        stream(explained, out_noise_variances[c])
        for h in range(n_factors):
            stream(solution[h + 1], out_loadings[c, h])
    finish_streams()
