"""Training on standardised features: as on rows that were shifted and scaled by hand, in units of the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import Start, fit_distributed, fit_local

ROWS = draw(make_mixture(6, 7, 2, spread=3.0), 900)
SCALES = np.geomspace(1e-3, 1e3, 7)
SHIFTS = np.linspace(-5, 5, 7)
RAW = ROWS * SCALES + SHIFTS
OPTIONS: dict[str, Any] = {
    "n_components": 6,
    "n_factors": 2,
    "max_iter": 6,
    "max_warmup_iter": 3,
    "tol": 0.0,
    "warmup_tol": 0.0,
    "n_groups": 3,
    "precision": "float64",
    "random_state": 2,
}
KINDS: dict[str, dict[str, Any]] = {
    "mfa": {},
    "a high floor": {"reg_covar": 0.5},
    "diagonal": {"covariance_type": "diagonal", "n_factors": 0},
    "isotropic": {"covariance_type": "isotropic", "n_factors": 0, "reg_covar": 0.2},
    "shared": {"noise": "shared"},
    "isotropic and shared": {"covariance_type": "isotropic", "n_factors": 0, "noise": "shared"},
    "uniform": {"init_params": "uniform"},
    "k-means++": {"init_params": "k-means++"},
    "k-means+fa": {"init_params": "k-means+fa", "tol": 1e-4},
    "noise": {"init_params": "noise"},
    "split": {"init_params": "noise", "empty_components": "split", "n_components": 20},
    "exhaustive": {"search": "exhaustive"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_fit_of_standardised_rows(kind: str) -> None:
    options = {**OPTIONS, **KINDS[kind]}
    deviations, means = RAW.std(axis=0), RAW.mean(axis=0)
    by_hand = fit_local((RAW - means) / deviations, preset="paper", **options)
    found = fit_local(RAW, preset="paper", **{"standardize": True, **options})
    jacobian = np.log(deviations).sum()
    for a, b in zip(found.history, by_hand.history, strict=True):
        assert a.free_energy + jacobian == pytest.approx(b.free_energy, rel=1e-9)
        assert a.n_joints == b.n_joints
    np.testing.assert_allclose(
        (found.model.means - means) / deviations, by_hand.model.means, atol=1e-6
    )
    np.testing.assert_allclose(found.model.loadings / deviations, by_hand.model.loadings, atol=1e-6)
    np.testing.assert_allclose(found.model.noise_variances / deviations**2, by_hand.model.noise_variances, atol=1e-6)
    np.testing.assert_allclose(
        found.model.score_samples(RAW) + jacobian, by_hand.model.score_samples((RAW - means) / deviations), rtol=1e-6
    )


def test_units_of_the_data_do_not_matter_and_otherwise_do() -> None:
    options = {**OPTIONS, "precision": "float32"}
    plain, scaled = (fit_local(rows.astype(np.float32), standardize=True, **options) for rows in (ROWS, RAW))
    jacobian = np.log(SCALES).sum()
    assert scaled.history[-1].free_energy + jacobian == pytest.approx(plain.history[-1].free_energy, abs=1e-2)
    assert plain.model.n_components == scaled.model.n_components
    unscaled = fit_local(RAW.astype(np.float32), standardize=False, **options)
    assert scaled.model.score(RAW) > unscaled.model.score(RAW) + 1


@pytest.mark.parametrize("unit", [1.0, 1024.0])
def test_a_constant_feature_takes_the_spread_of_the_others(unit: float) -> None:
    rows = unit * np.concatenate([RAW, np.full((900, 1), 17.0)], axis=1)
    fit = fit_local(rows, **OPTIONS)
    np.testing.assert_allclose(fit.model.means[:, -1], 17.0 * unit)
    typical = np.exp(np.log(RAW.std(axis=0)).mean()) * unit
    np.testing.assert_allclose(fit.model.noise_variances[:, -1], fit.settings.reg_covar * typical**2)


def test_the_cluster_gives_the_same_bytes(tmp_path: Path, processes: Client) -> None:
    path = write_store(tmp_path / "x.zarr", RAW.astype(np.float32), 100)
    options = {**OPTIONS, "precision": "float32", "standardize": True}
    fit = fit_distributed(path, client=processes, **options)
    assert parameters(fit.model) == parameters(fit_local(path, **options).model)


def test_a_start_is_in_units_of_the_data() -> None:
    first = fit_local(RAW, **{**OPTIONS, "max_iter": 2})
    mixture = first.model.mixture
    larger = replace(
        mixture,
        means=mixture.means * 256,
        offset=mixture.offset * 256,
        loadings=mixture.loadings * 256,
        noise_variances=mixture.noise_variances * 256**2,
    )
    one = fit_local(RAW, start=Start(mixture), **OPTIONS)
    other = fit_local(RAW * 256, start=Start(larger), **OPTIONS)
    assert one.history[-1].free_energy > first.history[-1].free_energy
    shift = 7 * np.log(256)
    assert other.history[-1].free_energy + shift == pytest.approx(one.history[-1].free_energy, rel=1e-12)


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match=r"standardize='yes': expected one of \(True, False\)"):
        fit_local(RAW, standardize="yes", **OPTIONS)
