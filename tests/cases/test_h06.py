"""H06: what a model holds is checked when it is loaded: shapes, dtypes, numbers and attributes, of every format."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.kept import change
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.run.start import Start
from vmfa_dask.store.arrays import describe, write_array
from vmfa_dask.store.models import FORMAT_VERSION, load_mixture
from vmfa_dask.store.strict import sealed
from vmfa_dask.values import Mixture

NAMES = ("weights", "means", "loadings", "noise_variances", "offset")
FORMATS = [1, 2, FORMAT_VERSION]


def mixture(dtype: str = "float32") -> Mixture:
    m = make_mixture(4, 6, 2, dtype=dtype)
    return Mixture(m.weights, m.means, m.loadings, m.noise_variances, (2, 3), np.linspace(0, 5, 6), version=3)


def saved(path: Path, number: int = FORMAT_VERSION, dtype: str = "float32", **arrays: Any) -> Path:
    """A model of a format, as it would be with other arrays; in the newest one its checksums go with them."""
    good = mixture(dtype)
    values = {name: getattr(good, name) for name in NAMES}
    if number > 1:
        values["means"] = values["means"].astype(np.float64) + values["offset"]
    values |= {name: np.asarray(array) for name, array in arrays.items()}
    MixtureModel.of(good).save(path)
    group = zarr.open_group(path, mode="r+")
    for name, array in values.items():
        del group[name]
        write_array(group, name, array)
    attributes(path, number, values)
    return path


def attributes(path: Path, number: int, arrays: dict[str, Any], **changes: Any) -> None:
    """Attributes as a format has them, sealed where it has checksums."""
    def edit(values: dict[str, Any]) -> None:
        known = {**values["attributes"], "format_version": number, **changes}
        known.pop("checksum", None)
        if number < 3:
            for name in ("arrays", "n_components", "n_features", "n_factors"):
                known.pop(name, None)
            values["attributes"] = {name: value for name, value in known.items() if number > 1 or name != "type"}
        else:
            values["attributes"] = sealed({**known, "arrays": describe(arrays)} if arrays else known)

    change(path / "zarr.json", edit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", FORMATS)
def test_models_of_every_format_load(tmp_path: Path, number: int, dtype: str) -> None:
    loaded, _ = load_mixture(saved(tmp_path / "m", number, dtype))
    np.testing.assert_allclose(loaded.means, mixture(dtype).means, atol=1e-5)
    assert loaded.loadings.dtype == np.dtype(dtype)
    assert loaded.feature_shape == (2, 3)


def put(name: str, place: tuple[int, ...], value: float) -> Callable[[], Any]:
    """An array of the model with another number somewhere."""

    def make() -> Any:
        array = np.array(getattr(mixture(), name))
        array[place] = value
        return array

    return make


GOOD = mixture()
BAD: dict[str, tuple[str, Callable[[], Any], str]] = {
    **{f"{value} in {name}": (name, put(name, (1,) * getattr(GOOD, name).ndim, value), "is|must")
       for name in NAMES for value in (np.nan, np.inf, -np.inf)},
    "denormal noise": ("noise_variances", put("noise_variances", (2, 3), 1e-40), r"noise_variances\[2, 3\] is .*e-4"),
    "no noise": ("noise_variances", put("noise_variances", (2, 3), 0.0), "noise_variances must be positive, found 0"),
    "negative noise": ("noise_variances", put("noise_variances", (2, 3), -1.0), "must be positive, found -1"),
    "negative weight": ("weights", put("weights", (0,), -0.5), "weights must be >= 0"),
    "weights of another sum": ("weights", lambda: GOOD.weights * 1.01, "sum of 1.01"),
    "no factors": ("loadings", lambda: np.zeros((4, 0, 6), "f4"), "n_factors is 2|NO FACTORS"),
    "transposed": ("loadings", lambda: np.array(GOOD.loadings).transpose(1, 0, 2).copy(), "component is 2, expected 4"),
    "components": ("means", lambda: np.zeros((3, 6)), "component is 3, expected 4 as in 'weights'"),
    "features": ("noise_variances", lambda: np.ones((4, 5), "f4"), "feature is 5, expected 6 as in 'means'"),
    "flat": ("means", lambda: np.zeros(24), r"shape \[24\], expected \(component, feature\)"),
    "scalar": ("offset", lambda: np.zeros(()), r"shape \[\], expected \(feature\)"),
    "nothing": ("weights", lambda: np.zeros(0), "component is 0, expected at least 1"),
    "whole numbers": ("noise_variances", lambda: np.ones((4, 6), np.int64), 'data_type is "int64", expected "float32"'),
    "whole weights": ("weights", lambda: np.array([1, 0, 0, 0]), 'data_type is "int64", expected "float64"'),
    "single weights": ("weights", lambda: np.full(4, 0.25, "f4"), 'data_type is "float32", expected "float64"'),
    "complex": ("means", lambda: np.zeros((4, 6), "c16"), 'data_type is "complex128"'),
    "half": ("loadings", lambda: np.zeros((4, 2, 6), "f2"), 'data_type is "float16"'),
    "mixed": ("noise_variances", lambda: np.ones((4, 6)), "float64, and the loadings are float32"),
}  # fmt: skip


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize(("name", "make", "message"), BAD.values(), ids=list(BAD))
def test_arrays_that_are_none_of_a_model_are_refused(
    tmp_path: Path, name: str, make: Callable[[], Any], message: str, number: int
) -> None:
    path = saved(tmp_path / "m", number, **{name: make()})
    if message.endswith("NO FACTORS") and number < 3:
        assert MixtureModel.load(path).n_factors == 0  # a whole array without numbers: nothing says that it had some
        return
    with pytest.raises(ValueError, match=rf"\A{re.escape(str(path))}[^\n]*\Z") as found:
        MixtureModel.load(path)
    assert re.search(message, str(found.value))
    assert name in str(found.value) or "n_factors" in str(found.value)


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("shape", [[4, 0, 6], [4, 1, 6], [4, 12], [48], [4, 6, 2], [10**18, 2, 6], [4, 2, 6, 1], []])
def test_an_edited_shape_of_loadings_is_refused(tmp_path: Path, shape: list[int], number: int) -> None:
    path = saved(tmp_path / "m", number)
    grid = {"name": "regular", "configuration": {"chunk_shape": [max(1, n) for n in shape]}}
    names = [f"d{k}" for k in range(len(shape))]
    edit = {"shape": shape, "chunk_grid": grid, "dimension_names": names}
    change(path / "loadings" / "zarr.json", lambda values: values.update(edit))
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))}: the array 'loadings' is damaged|'loadings' lacks"):
        MixtureModel.load(path)


ATTRIBUTES: dict[str, tuple[dict[str, Any], str]] = {
    **{f"shape {shape}": ({"feature_shape": shape}, "feature_shape")
       for shape in ([-2, -3], [2.0, 3], [2, 2], [], [0, 6], [True, 6], "6", None, 6, [[6]], [2**63, 6], [6, 1.5])},
    **{f"version {version}": ({"version": version}, "version is") for version in (-1, 1.5, "3", True, None)},
    **{f"type {kind}": ({"type": kind}, "type")
       for kind in ([], "mfa", 7, {"noise": "loud"}, {"covariance_type": 3}, {"learn_weights": 1}, {"mood": "good"})},
}  # fmt: skip


@pytest.mark.parametrize("number", [2, FORMAT_VERSION])
@pytest.mark.parametrize(("changes", "message"), ATTRIBUTES.values(), ids=list(ATTRIBUTES))
def test_attributes_of_a_wrong_kind_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str, number: int
) -> None:
    path = saved(tmp_path / "m", number)
    attributes(path, number, {}, **changes)
    with pytest.raises(ValueError, match=rf"\A{re.escape(str(path))}[^\n]*{message}"):
        MixtureModel.load(path)


@pytest.mark.parametrize("name", ["feature_shape", "version", "type", "provenance", "n_factors", "arrays", "checksum"])
@pytest.mark.parametrize("gone", [True, False])
def test_edited_attributes_do_not_match_the_checksum(tmp_path: Path, name: str, gone: bool) -> None:
    path = saved(tmp_path / "m")

    def edit(values: dict[str, Any]) -> None:
        values["attributes"].pop(name)
        if not gone:
            values["attributes"][name] = {"x": 1}

    change(path / "zarr.json", edit)
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))}/zarr.json: its checksum does not match"):
        MixtureModel.load(path)


def test_attributes_of_others_do_no_harm(tmp_path: Path) -> None:
    zarr.open_group(saved(tmp_path / "m"), mode="r+").attrs["note"] = "the good one"
    assert parameters(MixtureModel.load(tmp_path / "m"))


@pytest.mark.parametrize("name", NAMES)
def test_an_array_of_another_model_is_refused(tmp_path: Path, name: str) -> None:
    path, other = saved(tmp_path / "m"), make_mixture(4, 6, 2, seed=9, dtype="float32")
    MixtureModel.of(replace(other, feature_shape=(2, 3), offset=np.ones(6))).save(tmp_path / "other")
    shutil.rmtree(path / name)
    shutil.copytree(tmp_path / "other" / name, path / name)
    with pytest.raises(ValueError, match=rf"the array {name!r} is damaged: found .* names .*; restore it from a copy"):
        MixtureModel.load(path)


@pytest.mark.parametrize(("given", "error"), [
    ([1.5, 4], TypeError), ([-2, -3], ValueError), ([0, 0], ValueError), ([2**32, 2**32, 6], ValueError),
])  # fmt: skip
def test_shapes_of_rows_are_positive_whole_numbers(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(mixture(), feature_shape=tuple(given))


@pytest.mark.parametrize("how", ["model", "of", "start", "mixture as start"])
@pytest.mark.parametrize(("name", "value"), [
    ("means", np.nan), ("means", -np.inf), ("loadings", np.nan), ("loadings", np.inf), ("noise_variances", np.inf),
    ("noise_variances", 1e-40),
])  # fmt: skip
def test_given_parameters_are_checked_likewise(name: str, value: float, how: str) -> None:
    good = make_mixture(4, 6, 2, dtype="float32")
    array = np.array(getattr(good, name))
    array[(1,) * array.ndim] = value
    bad, place = replace(good, **{name: array}), re.escape(f"{name}{[1] * array.ndim} is ")
    calls: dict[str, Callable[[], Any]] = {
        "model": lambda: MixtureModel(bad.weights, bad.means, bad.loadings, bad.noise_variances),
        "of": lambda: MixtureModel.of(bad),
        "start": lambda: fit_local(draw(good, 50), n_components=4, n_factors=2, start=Start(bad)),
        "mixture as start": lambda: fit_local(draw(good, 50), n_components=4, n_factors=2, start=bad),
    }
    prefix = r"start\.mixture: " if "start" in how else r"\A"
    with pytest.raises(ValueError, match=prefix + place):
        calls[how]()


@pytest.mark.parametrize("name", ["means", "loadings"])
def test_means_and_loadings_may_be_as_small_as_they_like(name: str) -> None:
    good = make_mixture(4, 6, 2, dtype="float32")
    assert MixtureModel.of(replace(good, **{name: np.full_like(getattr(good, name), 1e-40)})).n_components == 4


@pytest.mark.parametrize("value", [np.nan, 0.0, -1.0])
def test_noise_that_is_none_makes_no_mixture(value: float) -> None:
    with pytest.raises(ValueError, match=f"noise_variances must be positive, found {value}"):
        replace(mixture(), noise_variances=np.full((4, 6), value, np.float32))


@pytest.mark.parametrize("provenance", [{"rows": "x" * 5_000_000}, {"deep": json.loads("[" * 200 + "]" * 200)}])
def test_what_could_not_be_read_again_is_not_saved(tmp_path: Path, provenance: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="provenance"):
        MixtureModel.of(mixture()).save(tmp_path / "m", provenance=provenance)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "provenance", [{"a": float("nan")}, {"b": [float("inf"), (1, 2)]}, {"ü": "\u2028\ud800"}, {1: 2}], ids=ascii
)
def test_provenance_of_any_plain_values_loads(tmp_path: Path, provenance: dict[str, Any]) -> None:
    MixtureModel.of(mixture()).save(tmp_path / "m", provenance=provenance)
    assert MixtureModel.load(tmp_path / "m").n_factors == 2
