"""What a fitted mixture says of rows, from the definition: full covariances, plain loops, float64."""

from __future__ import annotations

import numpy as np

from tests.twins.mixture import Dense, factor_regression, log_joints
from vmfa_dask.values import Float64


def posteriors(dense: Dense, rows: Float64, truncation: int | None = None) -> Float64:
    """p(c|x) of rows (n, D), normalised over the C' largest of each row; (n, C) float64, 0 for the others."""
    joints = log_joints(dense, rows)
    if truncation is not None:
        for row in joints:
            row[np.argsort(-row, kind="stable")[truncation:]] = -np.inf
    masses = np.exp(joints - joints.max(axis=1, keepdims=True))
    return masses / masses.sum(axis=1, keepdims=True)


def factors(dense: Dense, rows: Float64, weighted: bool) -> Float64:
    """E[z|c,x] of the most probable component of rows (n, D), or averaged over the posteriors; (n, H) float64."""
    weights = posteriors(dense, rows)
    if not weighted:
        weights = (weights == weights.max(axis=1, keepdims=True)).astype(float)
    means = np.zeros((len(rows), dense.loadings.shape[1]))
    for i, row in enumerate(rows):
        for c, p in enumerate(weights[i]):
            means[i] += p * (factor_regression(dense, c)[0] @ (row - dense.means[c]))
    return means


def reconstructions(dense: Dense, rows: Float64, truncation: int | None = None) -> Float64:
    """Σ_c p(c|x)(Λ_cΛ_cᵀΣ_c⁻¹(x − μ_c) + μ_c) of rows (n, D), (n, D) float64 (paper, zero-eq:deri4)."""
    weights, expected = posteriors(dense, rows, truncation), np.zeros(rows.shape)
    for i, row in enumerate(rows):
        for c, p in enumerate(weights[i]):
            shared = dense.loadings[c].T @ dense.loadings[c]
            deviation = np.linalg.solve(dense.covariance(c), row - dense.means[c])
            expected[i] += p * (shared @ deviation + dense.means[c])
    return expected
