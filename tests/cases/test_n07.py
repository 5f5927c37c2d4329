"""N07: pixels that have one value in every image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.samples import images, write_store
from vmfa_dask import fit_distributed

SIDE, BORDER = 14, 3


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("stored", ["uint8", "float32"])
def test_dead_border_and_saturated_pixel(tmp_path: Path, in_process: Client, stored: str, preset: str) -> None:
    rows = images(1500, (SIDE, SIDE))
    inside = np.zeros((SIDE, SIDE), bool)
    inside[BORDER:-BORDER, BORDER:-BORDER] = True
    rows[:, ~inside] = 0
    rows[:, 7, 6] = 255
    inside[7, 6] = False
    path = write_store(tmp_path / "x.zarr", rows.astype(stored), 500)
    fit = fit_distributed(path, n_components=8, n_factors=3, client=in_process, preset=preset)
    model = fit.model
    means, noise = model.component_means, model.noise_variances.reshape(-1, SIDE, SIDE)
    assert np.isfinite(model.score_samples(rows)).all()
    assert all(np.isfinite(getattr(model, n)).all() for n in ("weights", "means", "loadings", "noise_variances"))
    expected = np.where(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) == 7 * SIDE + 6, 255.0, 0.0)[~inside]
    np.testing.assert_array_equal(means[:, ~inside], np.tile(expected, (model.n_components, 1)))
    typical = np.exp(np.log(rows[:, inside].std(axis=0)).mean()) if preset == "default" else 1.0
    np.testing.assert_allclose(noise[:, ~inside], fit.settings.reg_covar * typical**2, rtol=1e-5)
    np.testing.assert_allclose(model.loadings.reshape(-1, 3, SIDE, SIDE)[:, :, ~inside], 0, atol=1e-9)
    assert noise[:, inside].min() > 1  # the others vary, and are not at the floor
