"""What components expect rows to be without their noise (paper, eq:de_mfa_approx). May import: numpy, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.kernels.arguments import Signals
from vmfa_dask.kernels.compile import kernel, reduction

# A kept component below this responsibility moves no grey level of an 8-bit image by a hundredth of a step.
_NEGLIGIBLE = 1e-5


@reduction
def _product(a: Any, b: Any) -> Any:
    """Σ a_d b_d of two vectors of one dtype and in it, in the order of the vector registers."""
    total = a[0] * b[0]
    for d in range(1, a.shape[0]):
        total += a[d] * b[d]
    return total


@kernel
def expected_signals(
    rows: Any,
    components: Any,
    responsibilities: Any,
    first: Any,
    last: Any,
    signals: Signals,
    out_signals: Any,
) -> None:
    """Σ_c q (μ_c + ρ_c Λ_c E[z] + (1 − ρ_c) t) of rows ``first:last`` over their kept components, t = x − μ_c.

    Rows that follow each other usually keep the same components, which then are in the cache.

    Parameters
    ----------
    rows : (n, D), any real dtype
        D >= 1.
    components : (n, C') int32
        Kept components, −1 where there are fewer.
    responsibilities : (n, C') float64
        q; they sum to 1.
    first, last : int
        Range of rows.
    signals : Signals
        Filters of the components. Their dtype is that of the arithmetic.
    out_signals : (n, D), same dtype, out
    """
    means, loadings, filters, removed = signals
    n_factors, n_features = loadings.shape[1], loadings.shape[2]
    deviation = np.empty(n_features, means.dtype)
    signal = np.empty(n_features, means.dtype)
    # A literal 1 would widen float32 arithmetic to float64.
    one = removed.dtype.type(1)
    for i in range(first, last):
        out_signals[i] = 0
        for k in range(components.shape[1]):
            c, q = components[i, k], means.dtype.type(responsibilities[i, k])
            if c < 0 or q < _NEGLIGIBLE:
                continue
            for d in range(n_features):
                deviation[d] = means.dtype.type(rows[i, d]) - means[c, d]
                signal[d] = 0
            for h in range(n_factors):
                # Filters take the residual, not the row: a bright patch is mostly mean, and would lose digits of its
                # signal.
                factor = _product(filters[c, h], deviation)
                for d in range(n_features):
                    signal[d] += factor * loadings[c, h, d]
            for d in range(n_features):
                # Where less noise is to be removed than the component takes for noise, the rest of the residual is
                # signal (ρ < 1).
                share = removed[c, d]
                out_signals[i, d] += q * (means[c, d] + share * signal[d] + (one - share) * deviation[d])
