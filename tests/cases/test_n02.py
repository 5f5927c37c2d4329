"""N02: no variance is a difference of large second moments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from distributed import Client

from tests.samples import write_store
from vmfa_dask import Fit, fit_distributed


def test_two_constant_groups(tmp_path: Path, in_process: Client) -> None:
    rows = np.repeat([9999.0, 0.0], 1000)[:, None] * np.ones(4)
    fits: dict[str, Fit] = {}
    for dtype in ("float32", "float64"):
        path = write_store(tmp_path / f"{dtype}.zarr", rows.astype(dtype), 250)
        fits[dtype] = fit = fit_distributed(path, n_components=2, n_factors=1, client=in_process)
        order = np.argsort(fit.model.means[:, 0])
        np.testing.assert_allclose(fit.model.weights, 0.5, rtol=1e-12)
        np.testing.assert_allclose(fit.model.component_means[order], [[0] * 4, [9999] * 4], rtol=1e-6, atol=1e-6)
        assert np.isfinite(fit.model.noise_variances).all()
        assert np.all(fit.model.noise_variances >= np.float32(fit.settings.reg_covar))
    for name in ("weights", "means", "noise_variances"):
        np.testing.assert_allclose(*(getattr(fit.model, name) for fit in fits.values()), rtol=1e-5)


def test_store_of_doubles_in_double_precision(tmp_path: Path, in_process: Client) -> None:
    rows = np.repeat([9999.0, 0.0], 1000)[:, None] * np.ones(4)
    path = write_store(tmp_path / "x.zarr", rows, 250)
    models = [
        fit_distributed(path, n_components=2, n_factors=1, client=in_process, precision=precision).model
        for precision in ("float32", "float64")
    ]
    for name in ("weights", "component_means", "noise_variances"):
        np.testing.assert_allclose(*(getattr(model, name) for model in models), rtol=1e-5, atol=1e-5)
