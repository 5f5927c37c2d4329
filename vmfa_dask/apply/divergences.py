"""Divergences between the components of a mixture in closed form, and the tree that they make.

May import: values, numpy.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.values import Float64, Mixture

# Components whose factors are taken together in one product of matrices.
_TOGETHER = 16


def symmetric_divergences(mixture: Mixture) -> Float64:
    """KL(a ‖ b) + KL(b ‖ a) of all pairs of components, in O(C²·D·H²) without a matrix of D x D.

    With Σ_b⁻¹ = D_b⁻¹ − W_bᵀW_b, W_b = R_b⁻¹Λ_bᵀD_b⁻¹ and L_b = R_bR_bᵀ (Woodbury; paper,
    appendix:EfficientEvaluationMFAs); the determinants cancel in the sum of both directions.

    Parameters
    ----------
    mixture : Mixture
        Weights do not count.

    Returns
    -------
    (C, C) float64 array
        Nats, symmetric, 0 on the diagonal.
    """
    means = mixture.means - mixture.means.mean(axis=0, dtype=np.float64)
    loadings, variances = mixture.loadings.astype(np.float64), mixture.noise_variances.astype(np.float64)
    (n_components, n_factors, n_features), inverse = loadings.shape, 1.0 / variances
    # tr(D_b⁻¹Σ_a) and the distance of the means under D_b, from which what the factors of b explain is taken away.
    one_way = (variances + (loadings**2).sum(axis=1) + means**2) @ inverse.T - 2 * means @ (means * inverse).T
    one_way += (means**2 * inverse).sum(axis=1) - n_features
    vectors = np.concatenate([loadings, means[:, None]], axis=1).reshape(-1, n_features)
    for first in range(0, n_components, _TOGETHER):
        part = slice(first, first + _TOGETHER)
        scaled = loadings[part] * inverse[part, None]
        root = np.linalg.cholesky(np.eye(n_factors) + scaled @ loadings[part].transpose(0, 2, 1))
        w = np.linalg.solve(root, scaled)
        projected = (vectors @ w.reshape(-1, n_features).T).reshape(n_components, n_factors + 1, len(w), n_factors)
        projected[:, -1] -= np.einsum("bhd,bd->bh", w, means[part])
        one_way[:, part] -= (projected**2).sum(axis=(1, 3)) + variances @ (w**2).sum(axis=1).T
    one_way *= 0.5
    divergences: Float64 = np.maximum(one_way + one_way.T, 0.0)  # rounding may leave less than nothing
    np.fill_diagonal(divergences, 0.0)
    return divergences


def average_linkage(distances: Float64) -> Float64:
    """Agglomerate: the two closest clusters become one, at the average distance of their members from others.

    Parameters
    ----------
    distances : (C, C) float64 array
        Symmetric.

    Returns
    -------
    (C − 1, 4) float64 array
        The format of `scipy.cluster.hierarchy.linkage`: numbers of two clusters, their distance, members of the new
        one; cluster C + k is that of row k.
    """
    d = distances.copy()
    np.fill_diagonal(d, np.inf)
    n = len(d)
    numbers, sizes = np.arange(n), np.ones(n)
    nearest, smallest = d.argmin(axis=1), d.min(axis=1)
    tree = np.empty((n - 1, 4))
    for k in range(n - 1):
        i = int(smallest.argmin())
        j = int(nearest[i])
        i, j = min(i, j), max(i, j)
        tree[k] = (*sorted((numbers[i], numbers[j])), d[i, j], sizes[i] + sizes[j])
        merged = (sizes[i] * d[i] + sizes[j] * d[j]) / (sizes[i] + sizes[j])
        merged[[i, j]] = np.inf  # ∞ also marks clusters that are gone
        d[i], d[:, i], d[j], d[:, j] = merged, merged, np.inf, np.inf
        numbers[i], sizes[i], smallest[j] = n + k, sizes[i] + sizes[j], np.inf
        stale = np.isin(nearest, (i, j)) & np.isfinite(smallest)
        closer = (merged < smallest) & ~stale
        nearest[closer], smallest[closer] = i, merged[closer]
        stale[i] = True
        nearest[stale], smallest[stale] = d[stale].argmin(axis=1), d[stale].min(axis=1)
    return tree
