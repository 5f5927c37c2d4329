"""S05: rows have the layout of the rows that a model was trained on, or are flat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr

from tests.samples import images, make_mixture, make_start, parameters, write_store
from vmfa_dask import Mixture, MixtureModel, fit_distributed, fit_local

SHAPE = (3, 4, 2)
M = make_mixture(3, 24, 1, dtype="float32")
MODEL = MixtureModel(M.weights, M.means + np.float32(100), M.loadings, M.noise_variances, SHAPE)
ROWS = images(40, SHAPE)
OTHER = [(4, 2, 3), (2, 4, 3), (4, 3, 2), (3, 8), (12, 2), (24, 1), (1, 24), (3, 4, 2, 1), (1, 3, 4, 2)]
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2}
METHODS = ["score_samples", "score", "predict", "bounds", "free_energy"]


def forms(folder: Path, rows: np.ndarray) -> list[tuple[Any, dict[str, Any]]]:
    return [
        (rows, {}),
        (rows.tolist(), {}),
        (write_store(folder / "x.zarr", rows, 10), {}),
        (dask.array.from_array(rows, chunks=(10, *rows.shape[1:])), {}),
        (xr.DataArray(rows, dims=["sample", *map(str, range(rows.ndim - 1))]), {}),
    ]


@pytest.mark.parametrize("method", METHODS)
def test_the_layout_of_the_model_or_flat_rows(tmp_path: Path, method: str) -> None:
    for rows in (ROWS, ROWS.reshape(40, 24)):
        np.testing.assert_array_equal(MODEL.score_samples(rows), MODEL.score_samples(ROWS))
    for data, options in forms(tmp_path, ROWS):
        getattr(MODEL, method)(data, **options)


@pytest.mark.parametrize("shape", OTHER)
def test_other_layouts_are_refused_by_both_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    found = f"found shape (n, {', '.join(map(str, shape))}), expected (n, 24) or (n, 3, 4, 2)"
    for data, options in forms(tmp_path, ROWS.reshape(40, *shape)):
        for method in METHODS:
            with pytest.raises(ValueError, match=r"found shape") as error:
                getattr(MODEL, method)(data, **options)
            assert found in str(error.value)


def test_a_flat_model_takes_flat_rows() -> None:
    flat = MixtureModel(MODEL.weights, MODEL.means, MODEL.loadings, MODEL.noise_variances)
    flat.score(ROWS.reshape(40, 24))
    with pytest.raises(ValueError, match=r"x: found shape \(n, 3, 4, 2\), expected \(n, 24\); bring"):
        flat.score(ROWS)
    with pytest.raises(ValueError, match=r"rows have 23 features, the model has 24: found shape \(n, 23\), expected"):
        MODEL.score(ROWS.reshape(40, 24)[:, :23])
    for x in (ROWS[0].reshape(24), ROWS[0].ravel().tolist(), dask.array.zeros(24)):
        with pytest.raises(ValueError, match=r"has no features; expected \(n, 24\) or \(n, 3, 4, 2\): use reshape"):
            MODEL.score(x)


class NoCluster:
    """Fails the test when it is asked for anything of its cluster."""

    asynchronous, status, scheduler_address, scheduler_info = False, "running", None, None

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the cluster was asked for {name} before the start was checked")


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("shape", [(4, 2, 3), (3, 8), (24, 1)])
def test_a_start_of_another_layout_is_refused_before_anything_is_written(
    tmp_path: Path, shape: tuple[int, ...], distributed: bool
) -> None:
    run = tmp_path / "run"
    fit: Any = fit_local if not distributed else lambda *a, **k: fit_distributed(*a, client=NoCluster(), **k)
    start = make_start(Mixture(M.weights, M.means, M.loadings, M.noise_variances, SHAPE), 40, 3, 3)
    for given in (MODEL, start):
        with pytest.raises(ValueError, match=r"start\.mixture: .*\(3, 4, 2\), and the rows of the data have the shape"):
            fit(ROWS.reshape(40, *shape), start=given, run=str(run), **OPTIONS)
    with pytest.raises(ValueError, match=r"start\.mixture: .*\(3, 4, 2\).*\(23,\)"):
        fit(ROWS.reshape(40, 24)[:, :23], start=MODEL, run=str(run), **OPTIONS)
    assert not run.exists()


def test_flat_starts_go_with_any_layout() -> None:
    flat = MixtureModel(MODEL.weights, MODEL.means, MODEL.loadings, MODEL.noise_variances)
    fits = [
        fit_local(rows, start=start, **OPTIONS)
        for rows, start in [(ROWS, MODEL), (ROWS, flat), (ROWS.reshape(40, 24), MODEL), (ROWS.reshape(40, 24), flat)]
    ]
    assert len({parameters(fit.model) for fit in fits}) == 1
    assert [fit.model.feature_shape for fit in fits] == [SHAPE, SHAPE, (24,), (24,)]
