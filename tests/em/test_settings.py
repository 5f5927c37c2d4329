"""Numbers that cannot define a run are refused, by name, with what is allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vmfa_dask.run.settings import Settings


def test_the_paper_has_a_name() -> None:
    s = Settings.paper(800)
    assert (s.n_factors, s.truncation, s.neighborhood, s.random_candidates) == (5, 3, 15, 1)
    assert (s.tol, s.warmup_tol, s.init_params, s.chain_length, s.precision) == (1e-4, 1e-4, "afkmc2", 10, "float32")
    assert s.search_size == 3 * 15 + 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", -3),
        ("n_components", 2.5),
        ("n_components", True),
        ("n_components", "8"),
        ("n_factors", -1),
        ("truncation", 0),
        ("truncation", 11),
        ("neighborhood", 0),
        ("neighborhood", 2.5),
        ("neighborhood", (15, 5)),
        ("neighborhood", (15, 0, 5)),
        ("neighborhood", (15, 5, 5, 5)),
        ("search_every", 0),
        ("search_every", 1.5),
        ("random_candidates", -1),
        ("max_iter", -1),
        ("max_warmup_iter", 1.5),
        ("chain_length", 0),
        ("random_state", -1),
        ("random_state", 2**63),
        ("random_state", None),
        ("tol", -1e-3),
        ("tol", 1),
        ("tol", math.nan),
        ("warmup_tol", "small"),
        ("reg_covar", 0),
        ("reg_covar", -1.0),
        ("reg_covar", math.inf),
        ("reg_covar", math.nan),
        ("init_params", "kmeans"),
        ("precision", "float16"),
    ],
)
def test_bad_numbers_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}=.*expected ") as error:
        Settings(**{"n_components": 10, name: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("truncation", 10),
        ("random_candidates", 0),
        ("max_iter", 0),
        ("max_warmup_iter", 0),
        ("tol", 0),
        ("tol", 0.0),
        ("warmup_tol", 0.5),
        ("reg_covar", 1),
        ("random_state", 2**63 - 1),
    ],
)
def test_edges_are_allowed(name: str, value: object) -> None:
    assert getattr(Settings(**{"n_components": 10, name: value}), name) == value


def test_defaults_depend_on_other_numbers() -> None:
    assert (Settings(2).n_factors, Settings(2).truncation) == (5, 2)
    assert Settings(1).truncation == 1
    assert Settings(40, covariance_type="diagonal").n_factors == 0
    assert Settings(40, search="exhaustive").truncation == 40
    s = Settings(800)
    assert (s.truncation, s.neighborhood, s.tol, s.reg_covar, s.standardize) == (3, 15, 5e-4, 3e-5, True)


def test_scalars_of_numpy_become_those_of_python() -> None:
    s = Settings(np.int64(8), tol=np.float32(0.5), standardize=np.bool_(False), neighborhood=np.array([3, 2, 1]))
    kinds = [type(value) for value in (s.n_components, s.tol, s.standardize, s.neighborhood)]
    assert kinds == [int, float, bool, tuple]


@pytest.mark.parametrize(("standardize", "expected"), [(True, 0.5), (False, 0.02)])
def test_gains_are_per_feature_or_relative(standardize: bool, expected: float) -> None:
    assert Settings(4, standardize=standardize).gain(-98.0, -100.0, 4) == pytest.approx(expected)


def test_sizes_are_clipped_to_the_number_of_components() -> None:
    assert Settings(4).neighborhood == 4
    assert Settings(4).search_size == 4
    assert Settings(1, truncation=1).search_size == 1
    assert Settings(6, neighborhood=(15, 5, 5)).neighborhoods == (6, 5, 5)


def test_neighborhoods_by_rank() -> None:
    s = Settings(800, neighborhood=(15, 5, 4))
    assert (s.neighborhoods, s.graph_size, s.search_size) == ((15, 5, 4), 15, 25)
    assert Settings(800).neighborhoods == (15, 15, 15)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "message"),
    [(9, 8, "n_components=10.* 9 rows"), (10, 5, "n_factors=5.*0 to 4.*5"), (10, 3, "n_factors=5.*0 to 2.*3")],
)
def test_data_that_is_too_small_is_refused(n_rows: int, n_features: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(10).check_against(n_rows, n_features)


@pytest.mark.parametrize(("n_factors", "n_features"), [(5, 6), (0, 1)])
def test_data_that_just_suffices_is_accepted(n_factors: int, n_features: int) -> None:
    Settings(10, n_factors).check_against(10, n_features)
