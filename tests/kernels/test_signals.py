"""Expected signals of rows, compared with dense posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples import draw, make_mixture
from vmfa_dask.em.signals import estimate_signals, signal_filters
from vmfa_dask.runtime.threads import Cores


@pytest.mark.parametrize("share", [None, 0.5])
def test_expected_signals(share: float | None) -> None:
    mixture = make_mixture(4, 7, 2, dtype="float32")
    rows = draw(mixture, 30, dtype="float32")
    rng = np.random.default_rng(0)
    components = np.array([rng.permutation(4)[:3] for _ in range(30)], np.int32)
    responsibilities = rng.dirichlet(np.ones(3), 30)
    components[3], responsibilities[3] = (2, 1, -1), (0.25, 0.75, 0)
    noise = None if share is None else share * mixture.noise_variances.astype(np.float64)
    estimates = np.full_like(rows, np.nan)
    estimate_signals(rows, components, responsibilities, signal_filters(mixture, noise), Cores(2), estimates)
    for n, row in enumerate(rows):
        expected = np.zeros(7)
        for c, q in zip(components[n], responsibilities[n], strict=True):
            loadings, removed = mixture.loadings[c].astype(np.float64), np.diag(mixture.noise_variances[c])
            removed = removed.astype(np.float64) * (share or 1.0)
            covariance = loadings.T @ loadings + np.diag(mixture.noise_variances[c])
            # What remains of a row without the part of its covariance that is noise.
            expected += q * (row - removed @ np.linalg.solve(covariance, row - mixture.means[c]))
        np.testing.assert_allclose(estimates[n], expected, rtol=1e-4, atol=1e-4)
