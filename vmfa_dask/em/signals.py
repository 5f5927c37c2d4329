"""Rows without their noise, as the components of a mixture expect them. May import: values, runtime, kernels, em."""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import Signals
from vmfa_dask.kernels.signals import expected_signals
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Float64, FloatArray, Int32, Mixture


def signal_filters(mixture: Mixture, noise: Float64 | None = None) -> Signals:
    """Filters of all components, in O(C·D·H²).

    Parameters
    ----------
    mixture : Mixture
        The model.
    noise : (C, D) float64 array, optional
        Variances of the noise to be removed. By default the noise variances of the model, so that what remains is
        Λ E[z] + μ (paper, eq:de_mfa_approx). Where the model has more than this, the rest counts as signal.

    Returns
    -------
    Signals
        In the dtype of the model.
    """
    # Filters are made once per model and used for every patch: float64 here costs nothing that counts.
    dtype, loadings = mixture.means.dtype, mixture.loadings.astype(np.float64)
    learned = mixture.noise_variances.astype(np.float64)
    removed = np.ones_like(learned)
    if noise is not None:
        # As a share: no more can be removed than the model takes for noise.
        removed = np.minimum(noise / learned, 1.0)
    scaled = loadings / learned[:, None, :]
    # L = I + ΛᵀD⁻¹Λ, H by H: solving with it never forms a covariance of D by D.
    precision = scaled @ loadings.transpose(0, 2, 1) + np.eye(mixture.n_factors)
    filters = np.linalg.solve(precision, scaled) if mixture.n_factors else scaled
    return Signals(mixture.means, mixture.loadings, filters.astype(dtype), removed.astype(dtype))


def estimate_signals(
    rows: Rows, components: Int32, responsibilities: Float64, signals: Signals, cores: Cores, out_signals: FloatArray
) -> None:
    """Expected signals of rows over their kept components (see `kernels.signals`).

    Parameters
    ----------
    rows : (n, D) array
        Rows as `em.rows.working_rows` returns them.
    components : (n, C') int32 array
        Kept components.
    responsibilities : (n, C') float64 array
        Their responsibilities.
    signals : Signals
        Filters of the mixture.
    cores : Cores
        Threads of this process.
    out_signals : (n, D) array of the model's dtype
        Written: the estimates, relative to the offset.
    """
    cores.run(
        lambda a, b: expected_signals(rows, components, responsibilities, a, b, signals, out_signals),
        cores.split(len(rows)),
    )
