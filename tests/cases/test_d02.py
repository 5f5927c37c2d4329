"""D02: unsigned rows never wrap round, and are not widened in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.samples import images, write_store
from vmfa_dask import MixtureModel, fit_distributed
from vmfa_dask.em.rows import working_rows


@pytest.mark.long
def test_one_image_set_in_four_types(tmp_path: Path, in_process: Client) -> None:
    rows = images(800, (5, 5, 3), n_kinds=4)
    assert rows.max() > 200
    models: dict[str, MixtureModel] = {}
    for dtype in ("uint8", "int16", "float32", "float64"):
        path = write_store(tmp_path / f"{dtype}.zarr", rows.astype(dtype), 200)
        models[dtype] = fit_distributed(path, n_components=6, n_factors=3, client=in_process, max_iter=20).model
    known = models["float64"]
    scores, labels = known.score_samples(rows.astype(np.float64)), known.predict(rows.astype(np.float64))
    assert len(np.unique(labels)) > 3
    for dtype, model in models.items():
        np.testing.assert_allclose(model.score_samples(rows.astype(dtype)), scores, rtol=1e-5)
        np.testing.assert_array_equal(model.predict(rows.astype(dtype)), labels)
        np.testing.assert_allclose(model.component_means, known.component_means, atol=1e-3)


def test_bytes_reach_the_kernels_as_bytes() -> None:
    block = images(100, (5, 5, 3)).reshape(100, 75)
    found = working_rows(block, np.zeros(75), "float32")
    assert found.dtype == np.uint8
    assert np.shares_memory(found, block)
