"""D07: numbers that do not fit the data are refused on the client, before any task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from scipy.stats import multivariate_normal

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_distributed


class NoCluster:
    """Stands where a client would, and fails the test when it is asked for anything of its cluster."""

    asynchronous, status, scheduler_address, scheduler_info = False, "running", None, None

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the cluster was asked for {name} before the input was checked")


def refuse(rows: np.ndarray, message: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=message):
        fit_distributed(rows, client=NoCluster(), **options)


def test_more_components_than_rows() -> None:
    refuse(np.zeros((50, 8), np.float32), "n_components=64: the data has only 50 rows", n_components=64)


@pytest.mark.slow
def test_more_components_than_rows_of_a_chunk(tmp_path: Path, in_process: Client) -> None:
    rows = draw(make_mixture(10, 6, 1), 1000, dtype="float32")
    fit = fit_distributed(
        write_store(tmp_path / "x.zarr", rows, 10), n_components=64, n_factors=1, client=in_process, max_iter=5
    )
    assert fit.model.n_components + len(fit.dropped) == 64
    assert fit.model.weights.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("n_factors", [4, 6])
def test_too_many_factors(n_factors: int) -> None:
    message = f"n_factors={n_factors}: expected 0 to 3 for rows of 4 features"
    refuse(np.zeros((1000, 4), np.float32), message, n_components=8, n_factors=n_factors)


def test_no_factors_is_the_diagonal_model(in_process: Client) -> None:
    rows = draw(make_mixture(3, 4, 0), 1000, dtype="float64")
    fit = fit_distributed(rows, n_components=3, n_factors=0, client=in_process, precision="float64", n_groups=2)
    assert fit.model.loadings.shape == (fit.model.n_components, 0, 4)
    assert fit.settings.n_factors == 0
    dense = np.array(
        [
            multivariate_normal(mean, np.diag(noise)).pdf(rows)
            for mean, noise in zip(fit.model.means, fit.model.noise_variances, strict=True)
        ]
    )
    np.testing.assert_allclose(fit.model.score_samples(rows), np.log(fit.model.weights @ dense), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components=0: expected an integer >= 1"),
        ({"n_components": -1}, "n_components=-1"),
        ({"n_components": 8, "n_factors": -1}, "n_factors=-1: expected an integer >= 0"),
        ({"n_components": 8, "truncation": 9}, "truncation=9: expected at most n_components=8"),
        ({"n_components": 8, "truncation": 0}, "truncation=0"),
    ],
)
def test_numbers_out_of_range(options: dict[str, int], message: str) -> None:
    refuse(np.zeros((1000, 4), np.float32), message, **options)
