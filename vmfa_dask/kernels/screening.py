"""Log-joints estimated from a part of the features.

A part is a quarter of the features: a run of 64 in each period of four such runs (`projections`). The marginal of a
component on it is Gaussian, with mean, loadings and noise variances of these features alone; log p(c, x) is estimated
as log π plus the logarithm of the marginal density times D / D_part. Packed parameters serve as they are: they hold
Wσ = R⁻¹ΛᵀD⁻¹σ, and with R_part R_partᵀ = I + Λᵀ_part D⁻¹_part Λ_part the marginal's own projections are R_part⁻¹R times
those of `projections` over the part. May import: numpy, kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vmfa_dask.kernels.arguments import Float64, PackedParameters, Regrouped
from vmfa_dask.kernels.compile import inline, inline_source, kernel
from vmfa_dask.kernels.linear_algebra import cholesky_in_place, dot, invert_lower
from vmfa_dask.kernels.projections import N_PARTS, RUN_FEATURES, prefetch_ahead, project_part
from vmfa_dask.kernels.vector import CACHE_LINE_BYTES

# Parameters of a part that stay in the first-level cache while the rows of a component pass.
_CACHED_BYTES = 22 * 1024
_PERIOD = N_PARTS * RUN_FEATURES


class Marginals(NamedTuple):
    """The marginal Gaussians of a part of the features, beside `PackedParameters`.

    Parameters
    ----------
    log_norms : (C,) float64
        log π − ½ scale (D_part log 2π + log|Σ_part|); −∞ for dropped components.
    transforms : (C, H, H) float64
        R_part⁻¹R, lower, with R_part R_partᵀ = I + Λᵀ_part D⁻¹_part Λ_part.
    scale : float
        D / D_part.
    """

    log_norms: Float64
    transforms: Float64
    scale: float


@inline
def _run_of_part(period: Any, part: Any) -> Any:
    """First feature of the run that a part has in a period."""
    return period * _PERIOD + (period // N_PARTS + part) % N_PARTS * RUN_FEATURES


@inline
def _part_of_component(packed: Any, n_features: Any, part: Any, out_gram: Any, out_flat: Any) -> Any:
    """PPᵀ of the packed projections P of a part, (H, H), and Σ log σ² over it; `out_flat` (H, D_part) is work space."""
    n_factors, lanes = packed.shape[1] - 2, packed.shape[2]
    log_variances, product, n = 0.0, 1.0, 0
    for period in range(-(-n_features // _PERIOD)):
        first = _run_of_part(period, part)
        for d in range(first, min(first + RUN_FEATURES, n_features)):
            vector, lane = d // lanes, d % lanes
            # One logarithm for some features, while their product is far from the ends of float64's range.
            product *= np.float64(packed[vector, 1, lane])
            if n % 4 == 3 or not 1e-100 < product < 1e100:
                log_variances -= 2.0 * np.log(product)
                product = 1.0
            for h in range(n_factors):
                out_flat[h, n] = packed[vector, 2 + h, lane]
            n += 1
    for h in range(n_factors):
        for j in range(h + 1):
            out_gram[h, j] = dot(out_flat[h, :n], out_flat[j, :n])
            out_gram[j, h] = out_gram[h, j]
    return log_variances - 2.0 * np.log(product)


@kernel
def marginalize(
    parameters: PackedParameters, log_weights: Any, n_features: Any, part: Any, first: Any, last: Any, out: Marginals
) -> None:
    """Norms and transforms of the marginals of components ``first:last`` on a part of the features, in O(C·D·H²/4).

    Parameters
    ----------
    parameters : PackedParameters
    log_weights : (C,) float64
        log π, −∞ for dropped components.
    n_features : int
        D.
    part : int
        Which of the parts.
    first, last : int
        Range of components.
    out : Marginals, out
        Its `scale` is read.
    """
    packed, _, precise_slot, _, packed_precise, cholesky, factors, _ = parameters
    log_norms, transforms, scale = out
    n_factors = len(factors)
    # The most that a part has: a run more than D / N_PARTS.
    flat = np.empty((n_factors, n_features // N_PARTS + RUN_FEATURES))
    gram, product = np.empty((n_factors, n_factors)), np.empty((n_factors, n_factors))
    n_part = n_features / scale
    for c in range(first, last):
        # Where float32 does not serve the component, neither does it here.
        if precise_slot[c] >= 0:
            log_determinant = _part_of_component(packed_precise[precise_slot[c]], n_features, part, gram, flat)
        else:
            log_determinant = _part_of_component(packed[c], n_features, part, gram, flat)
        # Λᵀ_part D⁻¹_part Λ_part = R(PPᵀ)Rᵀ, as P = R⁻¹ΛᵀD⁻¹σ.
        lower = cholesky[c]
        for h in range(n_factors):
            for j in range(n_factors):
                value = 0.0
                for k in range(h + 1):
                    value += lower[h, k] * gram[k, j]
                product[h, j] = value
        for h in range(n_factors):
            for j in range(h + 1):
                value = 1.0 if h == j else 0.0
                for k in range(j + 1):
                    value += product[h, k] * lower[j, k]
                gram[h, j] = value
                gram[j, h] = value
        if n_factors > 0:
            cholesky_in_place(gram)
            for h in range(n_factors):
                log_determinant += 2.0 * np.log(gram[h, h])
            invert_lower(gram, product)
        for h in range(n_factors):
            for j in range(n_factors):
                value = 0.0
                for k in range(j, h + 1):
                    value += product[h, k] * lower[k, j]
                transforms[c, h, j] = value
        log_norms[c] = log_weights[c] - 0.5 * scale * (n_part * np.log(2.0 * np.pi) + log_determinant)


@kernel
def project_part_of_rows(
    rows: Any, ids: Any, packed: Any, part: Any, factors: Any, tile: Any, out_sums: Any
) -> None:
    """Quadratic forms and projections of some rows under one component, over a part of the features.

    Parameters
    ----------
    rows : (n, D), any real dtype
    ids : (m,) int32
        Numbers of the rows.
    packed : (vectors, H + 2, lanes) float32 or float64
        Parameters of the component.
    part : int
        Which of the parts.
    factors, tile : tuples of lengths H and rows per register tile
    out_sums : (m, H + 1) float64, out
        Σ t²/σ² over the part in column 0, Wt in the others.
    """
    n_rows, n_features = ids.shape[0], rows.shape[1]
    out_sums[:] = 0.0
    stride = packed.shape[1]
    line_values = CACHE_LINE_BYTES // packed.itemsize
    run_lines = RUN_FEATURES * stride // line_values
    # Stretches of some runs each, of about equal size; their partial sums are added in float64.
    n_periods = -(-n_features // _PERIOD)
    n_stretches = -(-n_periods * RUN_FEATURES * stride * packed.itemsize // _CACHED_BYTES)
    periods = -(-n_periods // n_stretches)
    for period in range(0, n_periods, periods):
        start, stop = period * _PERIOD, min((period + periods) * _PERIOD, n_features)
        # While these parameters work, the ones that follow are fetched, some lines with each tile of rows: those of the
        # next stretch, or of the next component, which lie behind this one.
        n_lines = periods * run_lines * len(tile) // max(n_rows, 1) + 1
        ahead, next_period = (0, period + periods) if stop < n_features else (packed.size, 0)
        i = 0
        while i + len(tile) <= n_rows:
            project_part(rows, ids, i, packed, start, stop, factors, tile, out_sums, part)
            line = i // len(tile) * n_lines
            for k in range(line, min(line + n_lines, periods * run_lines)):
                run = k // run_lines
                origin = ahead + _run_of_part(next_period + run, part) * stride
                prefetch_ahead(packed, origin + (k - run * run_lines) * line_values, 1)
            i += len(tile)
        # Rows that do not fill a tile, one at a time. A row's sums have one order, whatever tile it is in.
        while i < n_rows:
            project_part(rows, ids, i, packed, start, stop, factors, (0,), out_sums, part)
            i += 1


@inline
def _distance(sums: Any, transform: Any, factors: Any) -> Any:
    """Squared Mahalanobis distance of the marginal, from sums over the part; NaN or ∞ where Σ t²/σ² is."""
    value = sums[0]
    if not value < np.inf:
        return value
    for h in range(len(factors)):
        projection = 0.0
        for j in range(h + 1):
            projection += transform[h, j] * sums[1 + j]
        value -= projection * projection
    return max(value, 0.0)


@inline_source
def _refine(
    rows: Any, ids: Any, packed: Any, part: Any, transform: Any, factors: Any, tile: Any, lost: Any, sums: Any
) -> None:
    """Compute again, in float64, the sums of rows whose distance is below the part `lost` of Σ t²/σ²."""
    chosen = np.empty(ids.shape[0], np.int32)
    positions = np.empty(ids.shape[0], np.int32)
    n = 0
    for i in range(ids.shape[0]):
        if not _distance(sums[i], transform, factors) >= sums[i, 0] * lost:  # negated, so that NaN is computed again
            chosen[n], positions[n] = ids[i], i
            n += 1
    if n == 0:
        return
    precise = np.empty((n, sums.shape[1]))
    project_part_of_rows(rows, chosen[:n], packed, part, factors, tile, precise)
    for k in range(n):
        sums[positions[k]] = precise[k]


@kernel
def estimated_joints(
    rows: Any,
    regrouped: Regrouped,
    part: Any,
    first: Any,
    last: Any,
    parameters: PackedParameters,
    marginals: Marginals,
    out_estimates: Any,
) -> None:
    """Estimates of log p(c, x) from a part of the features, of components ``first:last`` with their candidate rows.

    Parameters
    ----------
    rows : (n, D), any real dtype
    regrouped : Regrouped
        Candidate rows of each component.
    part : int
        Which of the parts.
    first, last : int
        Range of components.
    parameters : PackedParameters
    marginals : Marginals
        Of the same part.
    out_estimates : (J,) float64, out
        Written for the given components only.
    """
    members, indptr = regrouped
    packed, _, precise_slot, lost, packed_precise, _, factors, tile = parameters
    log_norms, transforms, scale = marginals
    # Work space for the component with most rows, allocated once.
    most = 0
    for c in range(first, last):
        most = max(most, indptr[c + 1] - indptr[c])
    sums = np.empty((most, len(factors) + 1))
    for c in range(first, last):
        ids = members[indptr[c] : indptr[c + 1]]
        if ids.shape[0] == 0:
            continue
        own, transform = sums[: ids.shape[0]], transforms[c]
        project_part_of_rows(rows, ids, packed[c], part, factors, tile, own)
        if precise_slot[c] >= 0:
            _refine(rows, ids, packed_precise[precise_slot[c]], part, transform, factors, tile, lost[c], own)
        for i in range(ids.shape[0]):
            out_estimates[indptr[c] + i] = log_norms[c] - 0.5 * scale * _distance(own[i], transform, factors)
