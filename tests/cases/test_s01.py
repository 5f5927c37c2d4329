"""S01: rows in the other byte order give the bytes of native rows, in every fit and every function of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import MixtureModel, fit_distributed, fit_local

MIXTURE = make_mixture(3, 6, 1, spread=20.0)
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2, "max_warmup_iter": 1, "n_groups": 2}
FUNCTIONS: dict[str, Callable[[MixtureModel, Any], Any]] = {
    "score_samples": lambda model, x: model.score_samples(x).tobytes(),
    "score": lambda model, x: model.score(x),
    "predict": lambda model, x: model.predict(x).tobytes(),
    "bounds": lambda model, x: model.bounds(x, 2),
    "free_energy": lambda model, x: model.free_energy(x, 2),
}


def rows_of(dtype: str) -> np.ndarray:
    return draw(MIXTURE, 120, dtype="float64").round(2).astype(dtype)


@pytest.mark.parametrize("dtype", ["i2", "u4", "f4", "f8"])
def test_fits_and_functions(tmp_path: Path, dtype: str) -> None:
    native = np.abs(rows_of("f8")).astype(dtype)
    known = fit_local(native, **OPTIONS).model
    swapped = native.astype(native.dtype.newbyteorder())
    assert parameters(fit_local(swapped, **OPTIONS).model) == parameters(known)
    store = write_store(tmp_path / "x.zarr", swapped, 120, zarr_format=2)  # one chunk: groups are those of an array
    assert parameters(fit_local(store, **OPTIONS).model) == parameters(known)
    for name, function in FUNCTIONS.items():
        expected = function(known, native)
        for data in (swapped, store, dask.array.from_array(swapped, chunks=(120, 6))):
            assert function(known, data) == expected, name


@pytest.mark.parametrize("method", ["uniform", "k-means++", "k-means+fa", "noise"])
def test_every_way_to_seeds(method: str) -> None:
    native = rows_of("f4")
    fits = [fit_local(rows, init_params=method, **OPTIONS) for rows in (native.astype(">f4"), native)]
    assert parameters(fits[0].model) == parameters(fits[1].model)


@pytest.mark.parametrize("options", [{"standardize": True}, {"search": "exhaustive"}, {"precision": "float64"}])
def test_every_type_of_run(options: dict[str, Any]) -> None:
    native = rows_of("i2")
    fits = [fit_local(rows, **OPTIONS, **options) for rows in (native.astype(">i2"), native)]
    assert parameters(fits[0].model) == parameters(fits[1].model)


@pytest.mark.parametrize("form", ["array", "store", "dask"])
def test_worker_processes(tmp_path: Path, processes: Client, form: str) -> None:
    native = rows_of("f4")
    swapped = native.astype(">f4")
    store = write_store(tmp_path / "x.zarr", swapped, 120, zarr_format=2)
    data = {"array": swapped, "store": store, "dask": dask.array.from_array(swapped, chunks=(50, 4))}[form]
    fit = fit_distributed(data, client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(native, **OPTIONS).model)


def test_a_run_goes_on_with_a_copy_in_the_other_order(tmp_path: Path) -> None:
    """The same numbers are the same data."""
    native = rows_of("f4")
    fit_local(native, run=str(tmp_path / "run"), **{**OPTIONS, "max_iter": 1, "tol": 0.0})
    longer = {**OPTIONS, "tol": 0.0}
    again = fit_local(native.astype(">f4"), run=str(tmp_path / "run"), resume="require", **longer)
    assert parameters(again.model) == parameters(fit_local(native, **longer).model)


def test_parameters_in_the_other_order() -> None:
    m = make_mixture(3, 6, 1, dtype="float32")
    native = MixtureModel(m.weights, m.means, m.loadings, m.noise_variances, (6,))
    values = (m.weights, m.means, m.loadings, m.noise_variances)
    weights, means, loadings, noise = (value.astype(value.dtype.newbyteorder()) for value in values)
    swapped = MixtureModel(weights, means, loadings, noise, (6,))
    rows = rows_of("f4")
    for name, function in FUNCTIONS.items():
        assert function(swapped, rows) == function(native, rows), name
    fits = [fit_local(rows, start=start, **OPTIONS) for start in (swapped, native)]
    assert parameters(fits[0].model) == parameters(fits[1].model)
