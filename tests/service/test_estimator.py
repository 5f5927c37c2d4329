"""The scikit-learn estimator: scikit-learn's own checks, its tools, and the fits that it stands for."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import vmfa_dask
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, MixtureOfFactorAnalyzers, fit_local
from vmfa_dask.service.keywords import DEFAULTS, SettingsKeywords

ROOT = Path(__file__).parents[2]
ROWS = draw(make_mixture(3, 8, 1), 300, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "tol": 0.01}


# In float64, because one check compares fits whose rows are summed in another order to seven digits.
@parametrize_with_checks([MixtureOfFactorAnalyzers(n_factors=1, tol=0.1, precision="float64")])
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_parameters_are_those_of_a_fit() -> None:
    shown = inspect.signature(MixtureOfFactorAnalyzers).parameters
    names = ["n_components", *SettingsKeywords.__annotations__, "warm_start", "preset", "client", "verbose"]
    assert sorted(shown) == sorted(names)
    others = {"n_components": 1, "verbose": 0}  # estimators of scikit-learn are silent unless asked
    assert {name: p.default for name, p in shown.items() if name in DEFAULTS} == {
        name: others.get(name, DEFAULTS[name]) for name in names if name in DEFAULTS
    }
    for name in names:
        assert name in str(MixtureOfFactorAnalyzers.__doc__)


def test_a_fit_is_that_of_the_package() -> None:
    mixture = MixtureOfFactorAnalyzers(**OPTIONS, random_state=5)
    labels = mixture.fit_predict(ROWS)
    fit = fit_local(ROWS, **OPTIONS, random_state=5)
    assert parameters(mixture.model_) == parameters(fit.model)
    assert np.array_equal(labels, fit.model.predict(ROWS))
    assert mixture.score(ROWS) == fit.model.score(ROWS)
    assert (mixture.aic(ROWS), mixture.bic(ROWS)) == (fit.model.aic(ROWS), fit.model.bic(ROWS))
    assert [r.free_energy for r in mixture.history_] == [r.free_energy for r in fit.history]
    assert mixture.n_iter_ == sum(r.phase == "training" for r in fit.history)
    assert (mixture.lower_bound_, mixture.converged_) == (fit.history[-1].free_energy, True)
    shapes = {name: getattr(mixture, f"{name}_").shape for name in ("weights", "means", "loadings", "noise_variances")}
    assert shapes == {"weights": (3,), "means": (3, 8), "loadings": (3, 1, 8), "noise_variances": (3, 8)}
    assert np.array_equal(mixture.covariances_[2], fit.model.covariance(2))
    joints = np.log(mixture.weights_) + np.stack(
        [multivariate_normal(mixture.means_[c], mixture.covariances_[c]).logpdf(ROWS) for c in range(3)], axis=1
    )
    assert mixture.predict_proba(ROWS) == pytest.approx(softmax(joints, axis=1), abs=1e-4)


def test_every_kind_of_random_state_can_be_repeated() -> None:
    def drawn(random_state: Any) -> list[bytes]:
        mixture = MixtureOfFactorAnalyzers(**OPTIONS, random_state=random_state).fit(ROWS)
        return [parameters(mixture.model_), *(mixture.sample(5)[0].tobytes() for _ in range(2))]

    assert drawn(None) == drawn(0) == drawn(np.int64(0))
    assert drawn(0)[1] == drawn(0)[2]
    assert drawn(np.random.RandomState(3)) == drawn(np.random.RandomState(3))
    assert drawn(np.random.RandomState(3))[1] != drawn(np.random.RandomState(3))[2]
    with pytest.raises(ValueError, match="cannot be used to seed"):
        MixtureOfFactorAnalyzers(random_state="x").fit(ROWS)


def test_samples_are_those_of_the_model() -> None:
    mixture = MixtureOfFactorAnalyzers(**OPTIONS, random_state=4).fit(ROWS)
    for rows, components in (mixture.sample(7), mixture.sample(7, random_state=4)):
        expected = mixture.model_.sample(7, random_state=4)
        assert np.array_equal(rows, expected[0])
        assert np.array_equal(components, expected[1])


def test_weights_repeat_rows() -> None:
    weights = np.random.default_rng(0).integers(0, 4, len(ROWS))
    weighted = MixtureOfFactorAnalyzers(**OPTIONS).fit(ROWS, sample_weight=weights)
    repeated = MixtureOfFactorAnalyzers(**OPTIONS).fit(np.repeat(ROWS, weights, axis=0))
    assert parameters(weighted.model_) == parameters(repeated.model_)
    plain = MixtureOfFactorAnalyzers(**OPTIONS).fit(ROWS, sample_weight=np.ones(len(ROWS)))
    assert parameters(plain.model_) == parameters(MixtureOfFactorAnalyzers(**OPTIONS).fit(ROWS).model_)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 0.5] * 150, r"sample_weight\[1\] is 0.5, expected a whole number from 0"),
        ([1, -1] * 150, r"sample_weight\[1\] is -1, expected a whole number"),
        ([0] * 300, "all weights are zero"),
        ([1] * 299, "inconsistent numbers of samples"),
        ([[1]] * 300, r"found shape \(300, 1\), expected \(300,\)"),
        ([np.nan] * 300, "sample_weight contains NaN"),
    ],
)
def test_weights_that_count_nothing_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureOfFactorAnalyzers().fit(ROWS, sample_weight=weights)


def test_a_warm_start_begins_with_the_last_model() -> None:
    mixture = MixtureOfFactorAnalyzers(**{**OPTIONS, "tol": 0.0}, max_iter=1, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="not converged after max_iter=1 passes"):
        first = mixture.fit(ROWS).model_
    mixture.set_params(tol=0.01, max_iter=50).fit(ROWS)
    expected = fit_local(ROWS, **OPTIONS, max_iter=50, start=first)
    assert parameters(mixture.model_) == parameters(expected.model)
    with pytest.raises(ValueError, match=r"start.mixture: n_components is 3, the run has n_components=4"):
        mixture.set_params(n_components=4).fit(ROWS)
    mixture.set_params(n_components=3, warm_start=False).fit(ROWS)
    assert parameters(mixture.model_) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_dropped_components_stay_dropped_in_a_warm_start() -> None:
    mixture = MixtureOfFactorAnalyzers(**OPTIONS, warm_start=True).fit(ROWS)
    mixture.model_ = fit_local(ROWS, **{**OPTIONS, "n_components": 2}).model
    assert mixture.fit(ROWS).weights_.shape == (2,)


def test_data_frames_give_names_and_data_frames() -> None:
    names = [f"x{i}" for i in range(8)]
    frame = pd.DataFrame(ROWS, columns=names, index=range(100, 400))
    mixture = MixtureOfFactorAnalyzers(**OPTIONS).set_output(transform="pandas")
    factors = mixture.fit_transform(frame)
    assert mixture.feature_names_in_.tolist() == names
    assert factors.columns.tolist() == mixture.get_feature_names_out().tolist() == ["mixtureoffactoranalyzers0"]
    assert factors.index.equals(frame.index)
    assert factors.to_numpy() == pytest.approx(posterior_means(mixture.model_), rel=1e-5, abs=1e-5)
    with pytest.raises(ValueError, match="feature names should match"):
        mixture.predict(frame.rename(columns={"x0": "other"}))


def posterior_means(model: MixtureModel) -> Any:
    """Means of the factors given each row of `ROWS` and its label, from the dense covariances."""
    labels = model.predict(ROWS)
    return np.stack(
        [
            model.loadings[c] @ np.linalg.solve(model.covariance(c), row - model.means[c])
            for row, c in zip(ROWS, labels, strict=True)
        ]
    )


def test_pipelines_and_searches_choose_the_number_of_components() -> None:
    pipeline = make_pipeline(StandardScaler(), MixtureOfFactorAnalyzers(**OPTIONS))
    search = GridSearchCV(pipeline, {"mixtureoffactoranalyzers__n_components": [1, 3]}, cv=2).fit(ROWS)
    assert search.best_params_ == {"mixtureoffactoranalyzers__n_components": 3}
    scores = cross_val_score(pipeline, ROWS, cv=2)
    assert scores.mean() == search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"][1])


def test_a_client_gives_the_same_model_as_none(in_process: Client) -> None:
    mixture = MixtureOfFactorAnalyzers(**OPTIONS, client=in_process).fit(ROWS)
    assert parameters(mixture.model_) == parameters(fit_local(ROWS, **OPTIONS).model)
    assert clone(mixture).client is in_process
    restored = pickle.loads(pickle.dumps(mixture))
    assert restored.client == in_process.scheduler.address
    assert np.array_equal(restored.predict(ROWS), mixture.predict(ROWS))
    with Client(in_process.scheduler.address, set_as_default=False) as closed:
        mixture.set_params(client=closed)
    assert pickle.loads(pickle.dumps(mixture)).client is None


def test_auto_takes_the_current_client(in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in ("fit_local", "fit_distributed"):

        def fit(rows: Any, client: Any = None, name: str = name, **keywords: Any) -> Any:
            used.append(name)
            return fit_local(rows, **keywords)

        monkeypatch.setattr(f"vmfa_dask.service.estimator.{name}", fit)
    mixture = MixtureOfFactorAnalyzers(**OPTIONS, client="auto").fit(ROWS)
    with in_process.as_current():
        mixture.fit(ROWS)
    assert used == ["fit_local", "fit_distributed"]


@pytest.mark.parametrize(
    ("given", "trained"),
    [("float32", "float32"), ("uint8", "uint8"), ("float64", "float64"), ("float16", "float64"), ("int64", "float64")],
)
def test_rows_keep_their_dtype_or_become_float64(given: str, trained: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(rows: Any, **keywords: Any) -> Any:
        raise RuntimeError(rows.dtype.name)

    monkeypatch.setattr("vmfa_dask.service.estimator.fit_local", fit)
    with pytest.raises(RuntimeError, match=trained):
        MixtureOfFactorAnalyzers().fit(np.abs(ROWS).astype(given))


def test_attributes_need_a_fit_and_covariances_some_room(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = MixtureOfFactorAnalyzers(**OPTIONS)
    assert not any(hasattr(mixture, name) for name in ("weights_", "means_", "loadings_", "covariances_", "n_iter_"))
    with pytest.raises(NotFittedError):
        mixture.sample()
    mixture.fit(ROWS)
    monkeypatch.setattr("vmfa_dask.service.estimator_results._MOST_COVARIANCE_BYTES", 1000)
    with pytest.raises(AttributeError, match=r"3 matrices of 8 x 8 numbers take 1.536 kB, more than 1 kB"):
        mixture.covariances_  # noqa: B018
    assert "means_" in dict(inspect.getmembers(mixture))  # as notebooks ask for attributes


def test_without_scikit_learn_the_estimator_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scikit_learn", "estimator_input", "estimator_results", "estimator"):
        monkeypatch.delitem(sys.modules, f"vmfa_dask.service.{name}")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"scikit-learn 1.6 or newer, .* pip install 'vmfa-dask\[sklearn\]'"):
        vmfa_dask.MixtureOfFactorAnalyzers  # noqa: B018


def test_without_scikit_learn_the_package_does_not_list_the_estimator() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
import vmfa_dask
print("MixtureModel" in dir(vmfa_dask), "MixtureOfFactorAnalyzers" in dir(vmfa_dask))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "False"], done.stderr
