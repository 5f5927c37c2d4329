"""What a model version is evaluated with, and the M-step: kernels that take one component after the other.

Paper, appendix:EfficientEvaluationMFAs and appendix:Mstep. All of it is computed in float64, whatever the dtype of the
parameters: it is O(C·D·H²), little beside the rows. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import Factorized, MomentSums, Parameters
from vmfa_dask.kernels.compile import kernel
from vmfa_dask.kernels.linear_algebra import (
    cholesky_in_place,
    combine,
    dot,
    invert_independent,
    invert_lower,
    squared_norm_of_product,
)
from vmfa_dask.kernels.streams import finish_streams, stream, stream_vector

# Part of a diagonal element of E_c that must be left when the other factors are known: below, rounding of the moments
# (sums of up to 256 rows in the precision of the run) would be most of the solution.
_INDEPENDENT_FLOAT32 = 1e-5
_INDEPENDENT_FLOAT64 = 1e-13


@kernel
def factorize(parameters: Parameters, weights: Any, first: Any, last: Any, out: Factorized) -> None:
    """Cholesky factor, log-normaliser and numbers that tell of rounding, of components ``first:last``.

    Paper, appendix:EfficientEvaluationMFAs.

    Parameters
    ----------
    parameters : Parameters
    weights : (C,) float64
        π; 0 for dropped components.
    first, last : int
        Range of components.
    out : Factorized, out
    """
    means, loadings, noise_variances = parameters
    out_cholesky, out_log_norms, out_conditions, out_shifts = out
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
        # would keep the roots out of vector registers, so it has a loop of its own.
        product = 1.0
        for d in range(n_features):
            product *= np.float64(noise_variances[c, d])
            if d % 4 == 3 or d == n_features - 1 or not 1e-100 < product < 1e100:
                log_determinant += np.log(product)
                product = 1.0
        # A row of Λᵀ at a time, while it is in the first-level cache.
        for h in range(n_factors):
            for d in range(n_features):
                whitened[h, d] = loadings[c, h, d] * deviation[d]
            for j in range(h + 1):
                gram[h, j] = dot(whitened[h], whitened[j])
                gram[j, h] = gram[h, j]
        condition = 0.0
        for h in range(n_factors):
            condition += gram[h, h]
            gram[h, h] += 1.0
        # With the identity added no eigenvalue is below 1: the factorization needs no pivots.
        cholesky_in_place(gram)
        for h in range(n_factors):
            log_determinant += 2.0 * np.log(gram[h, h])
        out_conditions[c] = condition
        out_shifts[c] = np.sqrt(squared_norm_of_product(means[c], deviation))
        # Dropped components stay in their arrays; −∞ keeps them out of every sum.
        log_weight = np.log(weights[c]) if weights[c] > 0.0 else -np.inf
        out_log_norms[c] = log_weight - 0.5 * (n_features * np.log(2.0 * np.pi) + log_determinant)


@kernel
def pack(parameters: Parameters, cholesky: Any, components: Any, first: Any, last: Any, out_packed: Any) -> None:
    """Packed parameters of components ``components[first:last]`` (see `projections` for the formulas).

    Wσ = R⁻¹ΛᵀD⁻¹σ is formed in float64; μ/σ takes 1/σ as it is rounded in out_packed, so that rounding moves a mean,
    but does not add to the distance of a row that lies on it.

    Parameters
    ----------
    parameters : Parameters
    cholesky : (C, H, H) float64
        R, from `factorize`.
    components : (P,) int32
        Numbers of the components to be packed, one after the other.
    first, last : int
        Range of `components`.
    out_packed : (P, vectors, H + 2, lanes) float32 or float64, out
        Features beyond D are zero.
    """
    means, loadings, noise_variances = parameters
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    n_vectors, n_lanes = out_packed.shape[1], out_packed.shape[3]
    # One component with features side by side, in float64; its end beyond D stays zero.
    flat = np.zeros((n_factors + 2, n_vectors * n_lanes))
    scaled = np.empty((n_factors, n_features))
    inverse = np.empty((n_factors, n_factors))
    rounded = np.empty(n_features, out_packed.dtype)
    for k in range(first, last):
        c = components[k]
        for d in range(n_features):
            rounded[d] = 1.0 / np.sqrt(np.float64(noise_variances[c, d]))
        for d in range(n_features):
            flat[0, d] = -np.float64(means[c, d]) * rounded[d]
            flat[1, d] = rounded[d]
        if n_factors > 0:
            invert_lower(cholesky[c], inverse)
            # ΛᵀD⁻¹σ is Λᵀ/σ: one factor less, and the 1/σ that the row values get as well.
            for h in range(n_factors):
                for d in range(n_features):
                    scaled[h, d] = loadings[c, h, d] * flat[1, d]
            combine(inverse, scaled, flat[2:])
        # Interleaved as it is written: each vector is read once from the cached component and streamed to memory.
        target = out_packed[k].reshape(-1)
        for v in range(n_vectors):
            for h in range(n_factors + 2):
                stream_vector(flat[h], v * n_lanes, target, (v * (n_factors + 2) + h) * n_lanes)
    finish_streams()


@kernel
def add_posterior_covariances(cholesky: Any, counts: Any, out_factor_moments: Any) -> None:
    """E_c += N_c L_c⁻¹ in its first H rows and columns: the covariance of the factors given a row.

    It is the same for every row (paper, eq:z_gauss_params), so it is added once to the sums over all rows of a group.

    Parameters
    ----------
    cholesky : (C, H, H) float64
        R of L = RRᵀ, so that L⁻¹ = R⁻ᵀR⁻¹.
    counts : (C,) float64
        N_c.
    out_factor_moments : (C, H + 1, H + 1) float64, in and out
        Σ q ẑẑᵀ becomes E_c.
    """
    # L⁻¹ = R⁻ᵀR⁻¹, formed explicitly: it is what is added, and H is small.
    n_factors = cholesky.shape[1]
    inverse = np.empty((n_factors, n_factors))
    for c in range(cholesky.shape[0]):
        invert_lower(cholesky[c], inverse)
        for h in range(n_factors):
            for j in range(n_factors):
                value = 0.0
                for k in range(n_factors):
                    value += inverse[k, h] * inverse[k, j]
                out_factor_moments[c, h, j] += counts[c] * value


@kernel
def maximize(sums: MomentSums, parameters: Parameters, floors: Any, out_parameters: Parameters) -> None:
    """Λ̂_c = Y_c E_c⁻¹ and σ²_c of the M-step, for a block of components (paper, eq:update_Ac and what follows it).

    A component that owns fewer rows than H + 1 can have an E_c that is singular to rounding; then factors that depend
    on the others get no loadings. (Inverted all the same, rounding of Y_c grew to loadings of 1e13 and to densities of
    e^1e15.)

    Parameters
    ----------
    sums : MomentSums
        Of B components, with the covariance of the factors. A component without rows keeps its parameters.
    parameters : Parameters
        Of the same components; the moments are centred on their means.
    floors : (D,) float64
        Smallest noise variance of each feature.
    out_parameters : Parameters, out
        Updated ones.
    """
    counts, factor_moments, moments = sums
    means, loadings, noise_variances = parameters
    out_means, out_loadings, out_noise_variances = out_parameters
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
        invert_independent(factor_moments[c], tolerance, inverse)
        # moments[c, 1:] is Σ q t, Σ q z_1 t, … while ẑ = (z, 1): roll the inverse to that order.
        for h in range(n_factors + 1):
            rolled[(h + 1) % (n_factors + 1)] = inverse[h]
        for h in range(n_factors + 1):
            for j in range(n_factors + 1):
                inverse[h, (j + 1) % (n_factors + 1)] = rolled[h, j]
        combine(inverse, moments[c, 1:], solution)
        # What mean and factors explain of Σ q t². As Λ̂ solves Λ̂E = Y, the diagonal of Λ̂EΛ̂ᵀ is one product per
        # feature.
        explained[:] = 0.0
        for h in range(n_factors + 1):
            for d in range(n_features):
                explained[d] += moments[c, 1 + h, d] * solution[h, d]
        # What is left of Σ q t² without the explained part. It is a difference of sums of t, not of x: little cancels.
        for d in range(n_features):
            solution[0, d] += means[c, d]  # moments are centred on the old mean, so the solution is the step from it
            explained[d] = max((moments[c, 0, d] - explained[d]) / counts[c], floors[d])
        stream(solution[0], out_means[c])
        stream(explained, out_noise_variances[c])
        for h in range(n_factors):
            stream(solution[h + 1], out_loadings[c, h])
    finish_streams()
