"""N01: mixing weights enter log-joints as logarithms."""

from __future__ import annotations

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw
from vmfa_dask import MixtureModel, fit_distributed

WEIGHTS, MEANS = np.array([0.99, 0.01]), np.array([[-6.0, 0.0], [6.0, 0.0]])
MODEL = MixtureModel(WEIGHTS, MEANS, np.tile([[[0.5, 0.0]]], (2, 1, 1)), np.ones((2, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_density_integrates_to_one(dtype: str) -> None:
    model = MixtureModel(WEIGHTS, *(getattr(MODEL, n).astype(dtype) for n in ("means", "loadings", "noise_variances")))
    side = np.linspace(-15, 15, 400, endpoint=False) + 15 / 400
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(dtype)
    total = np.exp(model.score_samples(grid)).sum() * (30 / 400) ** 2
    assert total == pytest.approx(1.0, abs=0.005)


def test_fit_finds_unequal_weights(in_process: Client) -> None:
    one, other = (
        MixtureModel(np.ones(1), MEANS[k : k + 1], MODEL.loadings[:1], MODEL.noise_variances[:1]) for k in (0, 1)
    )
    rows = np.concatenate([draw(one, 9900, seed=1), draw(other, 100, seed=2)]).astype(np.float32)
    fit = fit_distributed(rows, n_components=2, n_factors=1, client=in_process, n_groups=4)
    order = np.argsort(fit.model.means[:, 0])
    np.testing.assert_allclose(fit.model.weights[order], WEIGHTS, atol=0.003)
    np.testing.assert_allclose(fit.model.component_means[order], MEANS, atol=0.5)
