"""L04: defaults fit small tables: one to five features, one component, hardly more rows than components."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed import Client

from vmfa_dask import Settings, fit_distributed, fit_local


def table(n_rows: int, n_features: int, dtype: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(n_rows + n_features)
    rows = rng.normal(size=(n_rows, n_features)) + 4 * rng.integers(0, 3, (n_rows, 1))
    return (20 * rows).astype(dtype)


# Kernels are compiled for each dtype and number of factors: whole numbers come with two of the latter.
@pytest.mark.parametrize(
    ("n_features", "dtype"),
    [(1, "float64"), (2, "float64"), *((d, "float32") for d in range(3, 7)), (1, "int16"), (3, "int16")],
)
@pytest.mark.parametrize("n_components", [1, 2, 3, 7])
def test_few_features(n_features: int, n_components: int, dtype: str) -> None:
    rows = table(60, n_features, dtype)
    fit = fit_local(rows, n_components=n_components)
    assert fit.settings.n_factors == min(5, n_features - 1)
    assert fit.model.n_components + len(fit.dropped) == n_components
    scores = fit.model.score_samples(rows)
    assert np.isfinite(scores).all()
    for truncation in (None, 1):
        options = {} if truncation is None else {"truncation": truncation}
        bounds = fit.model.bounds(rows, **options)
        assert bounds.free_energy <= bounds.score + 1e-9
        assert fit.model.free_energy(rows, **options) <= bounds.score + 1e-5


@pytest.mark.filterwarnings("ignore:only .* seeds are distinct")  # chains may end on the same row
@pytest.mark.parametrize(
    "options", [{}, {"preset": "paper"}, {"search": "exhaustive"}, {"init_params": "afkmc2"}], ids=str
)
@pytest.mark.parametrize(("n_rows", "n_components"), [(1, 1), (2, 1), (2, 2), (5, 4), (8, 8), (60, 55), (120, 120)])
def test_hardly_more_rows_than_components(n_rows: int, n_components: int, options: dict[str, Any]) -> None:
    rows = table(n_rows, 3)
    fit = fit_local(rows, n_components=n_components, max_iter=10, **options)
    assert np.isfinite(fit.model.score_samples(rows)).all()
    assert fit.model.weights.sum() == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:only .* seeds are distinct")
@pytest.mark.parametrize("rows", [np.full((30, 2), 7.0), np.repeat(np.arange(3.0), 10)[:, None]], ids=["one", "three"])
def test_few_distinct_rows(rows: np.ndarray) -> None:
    fit = fit_local(rows, n_components=5, max_iter=10)
    assert np.isfinite(fit.model.score_samples(rows)).all()


def test_on_a_cluster(in_process: Client) -> None:
    fit = fit_distributed(table(200, 2), n_components=2, client=in_process)
    assert (fit.settings.n_factors, fit.settings.truncation) == (1, 2)


def test_what_was_set_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="n_factors=5: expected 0 to 1 for rows of 2 features"):
        fit_local(table(50, 2), n_components=2, n_factors=5)


def test_bounds_fits_and_settings_clip_alike() -> None:
    assert Settings(2).truncation == 2
    model = fit_local(table(50, 2), n_components=2).model
    assert model.bounds(table(50, 2)).free_energy == model.bounds(table(50, 2), truncation=2).free_energy
