"""Mixtures of factor analyzers from their definition: full D × D covariances, float64, one row at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask import MixtureModel
from vmfa_dask.values import Float64, Mixture


@dataclass(frozen=True)
class Dense:
    """A mixture in float64.

    Parameters
    ----------
    weights : (C,) float64
        Mixing proportions π.
    means : (C, D) float64
        In the units of the rows.
    loadings : (C, H, D) float64
        Λᵀ.
    noise_variances : (C, D) float64
    """

    weights: Float64
    means: Float64
    loadings: Float64
    noise_variances: Float64

    @classmethod
    def of(cls, source: Mixture | MixtureModel) -> Dense:
        """Widen a mixture, or that of a model.

        Parameters
        ----------
        source : Mixture or MixtureModel

        Returns
        -------
        Dense
            The same numbers; the offset is added to the means.
        """
        mixture = source.mixture if isinstance(source, MixtureModel) else source
        return cls(
            mixture.weights.copy(),
            mixture.means.astype(np.float64) + mixture.offset,
            mixture.loadings.astype(np.float64),
            mixture.noise_variances.astype(np.float64),
        )

    def covariance(self, c: int) -> Float64:
        """Σ_c = Λ_cΛ_cᵀ + diag σ²_c, (D, D) float64 (paper, eq:mfa_as_gmm)."""
        return self.loadings[c].T @ self.loadings[c] + np.diag(self.noise_variances[c])


def log_joint(dense: Dense, c: int, row: Float64) -> float:
    """log π_c + log N(x; μ_c, Σ_c).

    Parameters
    ----------
    dense : Dense
    c : int
        Number of the component.
    row : (D,) array of any real dtype

    Returns
    -------
    float
        In nats.
    """
    covariance = dense.covariance(c)
    difference = np.asarray(row, np.float64) - dense.means[c]
    distance = difference @ np.linalg.solve(covariance, difference)
    return float(
        np.log(dense.weights[c])
        - 0.5 * (len(difference) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + distance)
    )


def log_joints(dense: Dense, rows: Float64) -> Float64:
    """Log-joints of rows (n, D) with every component, (n, C) float64."""
    return np.array([[log_joint(dense, c, row) for c in range(len(dense.weights))] for row in rows])


def long_distances(dense: Dense, rows: NDArray[Any]) -> NDArray[np.longdouble]:
    """Squared Mahalanobis distances (n, C) in 80-bit arithmetic: neither large rows nor narrow noise lose digits.

    By the inversion lemma with an elimination written out, as no library solves in this precision.

    Parameters
    ----------
    dense : Dense
    rows : (n, D) array of any real dtype

    Returns
    -------
    (n, C) longdouble array
    """
    distances = np.empty((len(rows), len(dense.weights)), np.longdouble)
    for c in range(distances.shape[1]):
        deviations = np.sqrt(dense.noise_variances[c].astype(np.longdouble))
        t = (rows.astype(np.longdouble) - dense.means[c].astype(np.longdouble)) / deviations
        loadings = dense.loadings[c].astype(np.longdouble) / deviations
        # Gauss-Jordan without pivoting is stable here: I + ΛᵀD⁻¹Λ is positive definite.
        projected = loadings @ t.T
        system = np.concatenate([loadings @ loadings.T + np.eye(len(loadings)), projected], axis=1)
        for k in range(len(loadings)):
            system[k] /= system[k, k]
            for j in range(len(loadings)):
                if j != k:
                    system[j] -= system[j, k] * system[k]
        factors = system[:, len(loadings) :]
        # The distance as a sum of squares, which cannot cancel, in place of the difference that kernels compute.
        residual = t - factors.T @ loadings
        distances[:, c] = (residual**2).sum(axis=1) + (factors**2).sum(axis=0)
    return distances


def given_observed(dense: Dense, row: Float64, missing: NDArray[np.bool_]) -> tuple[float, Float64]:
    """Density of what is observed in a row, and the expectation of what is missing, by conditioning full Gaussians.

    Parameters
    ----------
    dense : Dense
    row : (D,) float64
        Anything where a value is missing.
    missing : (D,) bool

    Returns
    -------
    log_density : float
        log p(x_o), in nats.
    completed : (D,) float64 array
        The row with E[x_m | x_o] in place of what is missing.
    """
    o, m = np.flatnonzero(~missing), np.flatnonzero(missing)
    joints, expected = [], []
    for c in range(len(dense.weights)):
        covariance, difference = dense.covariance(c), row[o] - dense.means[c, o]
        within = covariance[np.ix_(o, o)]
        solved = np.linalg.solve(within, difference)
        log_norm = -0.5 * (len(o) * np.log(2 * np.pi) + np.linalg.slogdet(within)[1])
        joints.append(np.log(dense.weights[c]) + log_norm - 0.5 * difference @ solved)
        expected.append(dense.means[c, m] + covariance[np.ix_(m, o)] @ solved)
    log_density = np.logaddexp.reduce(joints)
    completed = row.copy()
    completed[m] = np.exp(joints - log_density) @ np.array(expected)
    return float(log_density), completed


def log_norms(dense: Dense) -> Float64:
    """Log-joints of each component at its mean, (C,) float64."""
    joints_at_means = [log_joint(dense, c, dense.means[c]) for c in range(len(dense.weights))]
    return np.array(joints_at_means)


def log_densities(dense: Dense, rows: Float64) -> Float64:
    """log p(x) of rows (n, D), (n,) float64, in nats."""
    return np.logaddexp.reduce(log_joints(dense, rows), axis=1)


def factor_regression(dense: Dense, c: int) -> tuple[Float64, Float64]:
    """Gain and covariance of the factors given a row of component c, by conditioning the joint Gaussian of (z, x).

    Parameters
    ----------
    dense : Dense
    c : int
        Number of the component.

    Returns
    -------
    gain : (H, D) float64 array
        The mean of the factors is ``gain @ (x − μ_c)``.
    covariance : (H, H) float64 array
        The same for every row.
    """
    gain = dense.loadings[c] @ np.linalg.inv(dense.covariance(c))
    return gain, np.eye(len(gain)) - gain @ dense.loadings[c].T


def textbook_m_step(dense: Dense, rows: Float64, responsibilities: Float64, floor: float) -> Dense:
    """Ghahramani and Hinton (1996) with separate noise per component: uncentred sums over rows, then linear algebra.

    Parameters
    ----------
    dense : Dense
        Parameters of the E-step.
    rows : (n, D) float64
    responsibilities : (n, C) float64
    floor : float
        Smallest noise variance.

    Returns
    -------
    Dense
        Updated parameters (paper, appendix:Mstep).
    """
    n_components, n_factors, n_features = dense.loadings.shape
    weights, means = np.empty(n_components), np.empty((n_components, n_features))
    loadings, noise = np.empty_like(dense.loadings), np.empty_like(means)
    for c in range(n_components):
        second = np.zeros((n_factors + 1, n_factors + 1))
        cross = np.zeros((n_features, n_factors + 1))
        squares, count = np.zeros(n_features), 0.0
        gain, covariance = factor_regression(dense, c)
        for row, q in zip(rows, responsibilities[:, c], strict=True):
            extended = np.append(gain @ (row - dense.means[c]), 1.0)
            moment = np.outer(extended, extended)
            moment[:n_factors, :n_factors] += covariance
            second += q * moment
            cross += q * np.outer(row, extended)
            squares += q * row**2
            count += q
        solution = np.linalg.solve(second, cross.T).T
        weights[c], means[c], loadings[c] = count / len(rows), solution[:, n_factors], solution[:, :n_factors].T
        noise[c] = np.maximum((squares - np.sum(cross * solution, axis=1)) / count, floor)
    return Dense(weights, means, loadings, noise)


def constrained(dense: Dense, isotropic: bool, shared: bool, fixed_weights: Float64 | None = None) -> Dense:
    """Average noise variances over what a model type has in common.

    Parameters
    ----------
    dense : Dense
    isotropic : bool
        One noise variance for all features.
    shared : bool
        The same noise variances for all components, weighted by their rows.
    fixed_weights : (C,) float64, optional
        Mixing proportions that replace the learned ones.

    Returns
    -------
    Dense
    """
    noise = dense.noise_variances
    if shared:
        noise = np.tile(dense.weights @ noise, (len(noise), 1))
    if isotropic:
        noise = np.tile(noise.mean(axis=1)[:, None], noise.shape[1])
    weights = dense.weights if fixed_weights is None else fixed_weights
    return Dense(weights, dense.means, dense.loadings, noise)


def textbook_em(
    dense: Dense,
    rows: Float64,
    iterations: int,
    floor: float,
    constrain: Callable[[Dense], Dense] = lambda dense: dense,
) -> tuple[Dense, list[float]]:
    """EM with full posteriors.

    Parameters
    ----------
    dense : Dense
        Start.
    rows : (n, D) float64
    iterations : int
    floor : float
        Smallest noise variance.
    constrain : callable
        Puts a model type's constraints on the parameters of each M-step.

    Returns
    -------
    dense : Dense
        Parameters after the last iteration.
    likelihoods : list of float
        Mean log-likelihood before each iteration and at the end, in nats per row.
    """
    likelihoods = []
    for _ in range(iterations):
        joints = log_joints(dense, rows)
        totals = np.logaddexp.reduce(joints, axis=1)
        likelihoods.append(float(totals.mean()))
        dense = constrain(textbook_m_step(dense, rows, np.exp(joints - totals[:, None]), floor))
    likelihoods.append(float(log_densities(dense, rows).mean()))
    return dense, likelihoods
