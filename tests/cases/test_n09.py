"""N09: fewer distinct rows than components."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.samples import write_store
from vmfa_dask import fit_distributed

DISTINCT = np.array([[0.0, 1, 2, 3, 4, 5], [9.0, 7, 5, 3, 1, 0]], np.float32)


@pytest.mark.parametrize("init_params", ["afkmc2", "uniform"])
def test_two_distinct_rows_for_eight_components(tmp_path: Path, in_process: Client, init_params: str) -> None:
    rows = np.repeat(DISTINCT, 5000, axis=0)[np.random.default_rng(0).permutation(10_000)]
    path = write_store(tmp_path / "x.zarr", rows, 1000)
    with pytest.warns(UserWarning, match=r"only 2 of n_components=8 seeds are distinct rows") as warned:
        fit = fit_distributed(
            path, n_components=8, n_factors=1, max_iter=100, client=in_process, n_groups=4, init_params=init_params
        )
    assert len(warned) == 1
    assert sum(record.phase == "training" for record in fit.history) <= 100
    labels = fit.model.predict(DISTINCT)
    np.testing.assert_allclose(fit.model.component_means[labels], DISTINCT, atol=1e-4)
    assert np.isfinite(fit.model.score(rows))


def test_rows_that_are_all_equal(in_process: Client) -> None:
    rows = np.full((500, 4), 3.25, np.float32)
    with pytest.warns(UserWarning, match="only 1 of n_components=3 seeds"):
        fit = fit_distributed(rows, n_components=3, n_factors=1, client=in_process, n_groups=2)
    np.testing.assert_array_equal(fit.model.component_means[fit.model.predict(rows[:1])], rows[:1])
    assert np.isfinite(fit.model.score(rows))
