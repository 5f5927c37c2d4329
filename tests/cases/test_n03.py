"""N03: a large offset that all rows share changes neither labels nor scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from sklearn.metrics import adjusted_rand_score

from tests.samples import write_store
from vmfa_dask import fit_distributed


@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_offset_of_a_million(tmp_path: Path, in_process: Client, stored: str) -> None:
    rng = np.random.default_rng(0)
    centers = rng.uniform(-6, 6, (4, 8))
    owner = rng.integers(0, 4, 2000)
    rows = np.clip(np.rint((centers[owner] + 0.5 * rng.normal(size=(2000, 8))) * 16), -128, 127) / 16
    near, far = rows.astype(stored), (rows + 1e6).astype(stored)
    np.testing.assert_array_equal(far.astype(np.float64) - 1e6, rows)  # exact in either type
    a, b = (
        fit_distributed(write_store(tmp_path / name, x, 500), n_components=4, n_factors=1, client=in_process).model
        for name, x in (("a", near), ("b", far))
    )
    labels = a.predict(near), b.predict(far)
    assert adjusted_rand_score(*labels) == 1.0
    assert len(np.unique(labels[0])) == 4
    assert abs(b.score(far) - a.score(near)) < 1e-3
    order_a, order_b = (np.argsort(m.component_means[:, 0]) for m in (a, b))
    np.testing.assert_allclose(b.component_means[order_b] - a.component_means[order_a], 1e6, rtol=0, atol=0.01)
