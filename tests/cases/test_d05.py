"""D05: chunks that are short, few, or fewer than the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, make_start, write_store
from vmfa_dask import MixtureModel, fit_distributed

N, C, H = 1003, 20, 3
ROWS = draw(make_mixture(C, 8, H, spread=2.0), N)
START = make_start(make_mixture(C, 8, H, seed=3, spread=2.0), N, 3, 5)
OPTIONS: dict[str, Any] = {
    "n_components": C,
    "n_factors": H,
    "neighborhood": 5,
    "start": START,
    "max_iter": 10,
    "max_warmup_iter": 3,
    "precision": "float64",
}


def assert_same(model: MixtureModel, known: MixtureModel) -> None:
    assert (model.weights * N).sum() == pytest.approx(N, abs=1e-9)
    for name in ("weights", "means", "loadings", "noise_variances"):
        np.testing.assert_allclose(getattr(model, name), getattr(known, name), rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, in_process: Client) -> MixtureModel:
    """The run on one chunk."""
    path = write_store(tmp_path_factory.mktemp("d05") / "one.zarr", ROWS, N)
    return fit_distributed(path, client=in_process, **OPTIONS).model


@pytest.mark.parametrize("chunk_rows", [100, 503, 7])
def test_any_chunks_give_the_parameters_of_one(
    tmp_path: Path, in_process: Client, known: MixtureModel, chunk_rows: int
) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, chunk_rows)  # last chunks of 3, 500 and 2 rows
    assert_same(fit_distributed(path, client=in_process, **OPTIONS).model, known)
    assert_same(fit_distributed(path, client=in_process, n_groups=11, **OPTIONS).model, known)


def test_two_chunks_on_six_workers(tmp_path: Path, known: MixtureModel) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 503)
    with (
        local_cluster(6, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert_same(fit_distributed(path, client=client, n_groups=2, **OPTIONS).model, known)
