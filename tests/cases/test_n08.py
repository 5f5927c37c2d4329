"""N08: far more components than groups in the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.samples import write_store
from vmfa_dask import fit_distributed

CENTERS = np.array([[100.0, 100], [200, 100], [100, 200]])


@pytest.mark.parametrize("random_state", [0, 1])
def test_thirty_components_for_three_blobs(tmp_path: Path, in_process: Client, random_state: int) -> None:
    rng = np.random.default_rng(5)
    rows = (CENTERS[rng.integers(0, 3, 3000)] + rng.normal(0, 0.5, (3000, 2))).astype(np.float32)
    path = write_store(tmp_path / "x.zarr", rows, 300)
    fit = fit_distributed(
        path,
        n_components=30,
        n_factors=1,
        max_iter=50,
        tol=0.0,
        client=in_process,
        n_groups=4,
        random_state=random_state,
    )
    model = fit.model
    distance = np.linalg.norm(model.component_means[:, None] - CENTERS, axis=2).min(axis=1)
    assert distance.max() < 5  # every component lies in a blob, none at the origin or between them
    assert model.weights.sum() == pytest.approx(1, abs=1e-6)
    assert model.weights.min() > 0
    assert model.n_components + len(fit.dropped) == 30
    assert fit.history[-1].n_alive == model.n_components
    energies = np.array([record.free_energy for record in fit.history])
    assert np.all(np.diff(energies) >= -1e-6 * np.abs(energies[1:]))
    assert np.isfinite(model.score(rows))
