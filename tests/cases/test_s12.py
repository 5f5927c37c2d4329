"""S12: free parameters of every type of model, and the criteria that follow from them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from tests.samples import draw, make_mixture
from tests.twins.mixture import Dense
from vmfa_dask import MixtureModel, fit_local

C, D = 3, 10
ROWS = draw(make_mixture(C, D, 1, spread=8.0), 600)
FIT: dict[str, Any] = {"n_components": C, "max_iter": 2, "n_groups": 2, "precision": "float64"}
COUNTS = [
    ({"n_factors": 0}, 62),
    ({"covariance_type": "diagonal"}, 62),
    ({"covariance_type": "isotropic"}, 35),
    ({"covariance_type": "diagonal", "noise": "shared"}, 42),
    ({"covariance_type": "isotropic", "noise": "shared"}, 33),
    ({"covariance_type": "diagonal", "learn_weights": False}, 60),
    ({"n_factors": 1}, 62 + 30),
    ({"n_factors": 3}, 62 + 3 * 30 - 3 * 3),
    ({"n_factors": 3, "noise": "shared"}, 42 + 3 * 30 - 3 * 3),
    ({"n_factors": 9}, 2 + 30 + 3 * 55),
    ({"n_factors": 9, "learn_weights": False}, 30 + 3 * 55),
]


@pytest.mark.parametrize(("options", "count"), COUNTS, ids=str)
def test_free_parameters_of_a_fit(tmp_path: Path, options: dict[str, Any], count: int) -> None:
    model = fit_local(ROWS, **FIT, **options).model
    assert model.n_components == C
    assert model.n_parameters == count
    model.save(tmp_path / "m")
    assert MixtureModel.load(tmp_path / "m").n_parameters == count


def dimension(covariance_type: str, noise: str, n_components: int, n_features: int, n_factors: int) -> int:
    """Dimensions in which covariances can change: the rank of the derivative of all Σ_c by the parameters."""
    rng = np.random.default_rng(0)
    shared, one = noise == "shared", covariance_type == "isotropic"
    shape = (1 if shared else n_components, 1 if one else n_features)
    n_loadings = n_components * n_factors * n_features
    where = rng.normal(size=n_loadings + int(np.prod(shape)))

    def covariances(values: np.ndarray) -> np.ndarray:
        loadings = values[:n_loadings].reshape(n_components, n_factors, n_features)
        diagonal = np.broadcast_to(values[n_loadings:].reshape(shape), (n_components, n_features))
        return np.array([a.T @ a + np.diag(b) for a, b in zip(loadings, diagonal, strict=True)]).ravel()

    steps = 1e-6 * np.eye(len(where))
    derivative = np.array([(covariances(where + s) - covariances(where - s)) / 2e-6 for s in steps])
    return int(np.linalg.matrix_rank(derivative, tol=1e-6))


@pytest.mark.parametrize("covariance_type", ["mfa", "diagonal", "isotropic"])
@pytest.mark.parametrize("noise", ["component", "shared"])
def test_counts_are_dimensions_of_the_set_of_covariances(covariance_type: str, noise: str) -> None:
    for c, d, h in itertools.product((1, 3), (1, 2, 5), (0, 1, 2, 4)):
        if (h >= d and h > 0) or (h and covariance_type != "mfa"):
            continue
        mixture = make_mixture(c, d, h)
        options: dict[str, Any] = {"covariance_type": covariance_type, "noise": noise}
        arrays = (mixture.weights, mixture.means, mixture.loadings, mixture.noise_variances)
        model = MixtureModel(*arrays, **options)
        covariances = dimension(covariance_type, noise, c, d, h)
        assert model.n_parameters == c - 1 + c * d + covariances, (c, d, h)
        assert MixtureModel(*arrays, learn_weights=False, **options).n_parameters == model.n_parameters - (c - 1)


def test_criteria_are_those_of_scikit_learn() -> None:
    known = GaussianMixture(C, covariance_type="diag", random_state=0).fit(ROWS)
    model = MixtureModel(known.weights_, known.means_, np.zeros((C, 0, D)), known.covariances_)
    for rows in (ROWS, ROWS[:7]):
        assert model.aic(rows) == pytest.approx(known.aic(rows), rel=1e-9)
        assert model.bic(rows) == pytest.approx(known.bic(rows), rel=1e-9)
    spherical = GaussianMixture(C, covariance_type="spherical", random_state=0).fit(ROWS)
    noise = np.tile(spherical.covariances_[:, None], D)
    model = MixtureModel(spherical.weights_, spherical.means_, np.zeros((C, 0, D)), noise, covariance_type="isotropic")
    assert model.bic(ROWS) == pytest.approx(spherical.bic(ROWS), rel=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [0, 2])
def test_covariance_of_a_component(dtype: str, n_factors: int) -> None:
    mixture = make_mixture(4, 6, n_factors, dtype=dtype)
    model = MixtureModel.of(mixture)
    for c in range(4):
        found = model.covariance(c)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, Dense.of(mixture).covariance(c), rtol=1e-12)
    for wrong in (4, -1):
        with pytest.raises(IndexError, match=f"component={wrong}: expected 0 to 3"):
            model.covariance(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"covariance_type": "full"}, "covariance_type='full'"), ({"noise": "none"}, "noise='none'")],
)
def test_types_that_do_not_exist_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureModel(np.ones(1), np.zeros((1, 2)), np.zeros((1, 0, 2)), np.ones((1, 2)), **options)
