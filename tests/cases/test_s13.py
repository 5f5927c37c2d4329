"""S13: the numbers of a model are in the units of the data, in memory and on disk; models can be compared and shown."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import Mixture, MixtureModel, Start, fit_local
from vmfa_dask.apply.model_type import ModelType

OFFSETS = {"none": 0.0, "large": 1e6, "mixed": np.array([0.0, 1e6, -3e5, 0.1])}
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 4}


@pytest.mark.parametrize("offset", OFFSETS.values(), ids=OFFSETS.keys())
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("stored", ["float64", "int32"])
def test_means_of_a_fit_lie_where_the_rows_lie(offset: Any, precision: str, stored: str) -> None:
    base = draw(make_mixture(3, 4, 1, spread=8.0), 600)
    rows = (base * (1 if stored == "float64" else 10) + offset).astype(stored)
    fit = fit_local(rows, precision=precision, **OPTIONS)
    model = fit.model
    assert (model.means.shape, model.means.dtype) == ((model.n_components, 4), np.float64)
    np.testing.assert_array_equal(model.component_means, model.means)
    np.testing.assert_allclose(model.weights @ model.means, rows.mean(axis=0), rtol=1e-6, atol=0.01)
    if not fit.dropped:  # a start is in the units of the data, too
        again = fit_local(rows, start=model, precision=precision, **{**OPTIONS, "max_iter": 0})
        np.testing.assert_array_equal(again.model.means, model.means)
        begun = fit_local(rows, start=Start(model.mixture), precision=precision, **{**OPTIONS, "max_iter": 0})
        assert begun.model == again.model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [None, 1e6, 0.1, -1e-3, 1e12])
def test_a_saved_model_shows_means_of_the_data_and_loads_the_same_bytes(
    tmp_path: Path, dtype: str, offset: float | None
) -> None:
    mixture = make_mixture(4, 6, 2, dtype=dtype)
    means = mixture.means * np.logspace(-12, 4, 6).astype(dtype)  # small ones lose digits to the offset
    mixture = dataclasses.replace(mixture, means=means, offset=np.full(6, offset or 0.0), version=5)
    model = MixtureModel.of(mixture, ModelType("mfa", "component", False))
    model.save(tmp_path / "m")
    loaded = MixtureModel.load(tmp_path / "m")
    assert parameters(loaded) == parameters(model)
    assert loaded.loadings.dtype == np.dtype(dtype)
    assert loaded == model
    assert loaded.type == model.type
    assert loaded.mixture.version == 5
    with xarray.open_zarr(tmp_path / "m", consolidated=False) as opened:
        np.testing.assert_array_equal(opened["means"], model.means)
        assert opened.attrs["type"] == {"covariance_type": "mfa", "noise": "component", "learn_weights": False}


def test_parameters_that_are_given_stay_as_they_are() -> None:
    model = MixtureModel([0.25, 0.75], [[1, 2], [3, 4]], np.zeros((2, 0, 2)), [[1, 1], [2, 2]])
    np.testing.assert_array_equal(model.means, [[1.0, 2.0], [3.0, 4.0]])
    assert model.loadings.dtype == np.float64
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.mixture = None  # type: ignore[misc]
    for array in (model.means, model.weights, model.noise_variances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def changes(mixture: Mixture) -> list[Mixture]:
    """The mixture with one thing changed."""
    found = []
    for name in ("weights", "means", "loadings", "noise_variances", "offset"):
        array = getattr(mixture, name).copy()
        if name == "weights":
            array[:2] += 0.01, -0.01
        else:
            array.flat[-1] += 1
        found.append(dataclasses.replace(mixture, **{name: array}))
    names = ("means", "loadings", "noise_variances")
    small = dataclasses.replace(mixture, weights=np.ones(1), **{name: getattr(mixture, name)[:1] for name in names})
    return [*found, small, make_mixture(3, 5, 1), make_mixture(3, 4, 0)]


def test_equality_is_true_or_false() -> None:
    mixture = make_mixture(3, 4, 1, dtype="float32")
    for value, others in (
        (mixture, changes(mixture)),
        (MixtureModel.of(mixture), [MixtureModel.of(changed) for changed in changes(mixture)]),
    ):
        for same in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert (value == same, value != same) == (True, False)
            assert hash(value) == hash(same)
        for other in others:
            assert (value == other, value != other) == (False, True)
        for stranger in (None, 3, "x", np.zeros(3), [value]):
            assert value != stranger
        assert value in [others[0], value]
        assert len({value, copy.copy(value), others[0]}) == 2
    types = itertools.product(("mfa", "diagonal"), ("component", "shared"), (True, False))
    models = [MixtureModel.of(mixture, ModelType(*kind)) for kind in types]
    assert len(set(models)) == len(models)
    # The same numbers of the data, whatever they are kept relative to.
    shifted = dataclasses.replace(mixture, means=mixture.means.astype(np.float64), offset=np.full(4, 2.0))
    whole = dataclasses.replace(shifted, means=shifted.means + 2.0, offset=np.zeros(4))
    assert MixtureModel.of(shifted) == MixtureModel.of(whole)


def test_what_a_model_and_a_fit_say_fits_a_screen() -> None:
    rows = draw(make_mixture(3, 12, 1, spread=8.0), 600, dtype="float32").reshape(-1, 2, 2, 3)
    fit = fit_local(rows, noise="shared", learn_weights=False, **OPTIONS)
    energy = f"{fit.history[-1].free_energy:.6g}"
    for value, facts in (
        (fit.model, ("MixtureModel", "3", "12 (2 x 2 x 3)", "mfa, noise shared", "weights not learned", "float32")),
        (fit, ("Fit", energy, "mfa", "converged", f"{len(fit.history)} (", "0 of 3 components", "float32")),
    ):
        lines, table = repr(value), value._repr_html_()
        assert len(lines.splitlines()) < 20
        assert max(map(len, lines.splitlines())) < 100
        assert "array(" not in lines
        for fact in facts:
            assert fact in lines
            assert fact in table
        assert table.startswith("<table>")
    assert str(fit.model.n_parameters) in repr(fit.model)
    big = MixtureModel.of(make_mixture(1000, 50, 2))
    assert "1,000" in repr(big)
