"""The fitted half of the scikit-learn estimator: its attributes, and what it does with rows.

May import: values, run, apply, service, numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.summary import as_size
from vmfa_dask.run.records import IterationRecord
from vmfa_dask.service.estimator_input import ROW_DTYPES, seed_of
from vmfa_dask.service.scikit_learn import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    TransformerMixin,
    check_is_fitted,
    validate_data,
)
from vmfa_dask.values import Float64, FloatArray, Int64

# `covariances_` may be as large as this: notebooks that show an estimator compute all its attributes.
_MOST_COVARIANCE_BYTES = 2**27


class FittedMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):
    """What a fitted `MixtureOfFactorAnalyzers` has and does; that class describes the attributes."""

    model_: MixtureModel
    history_: tuple[IterationRecord, ...]
    random_state: Any

    def score_samples(self, X: Any) -> Float64:
        """Log-density of each row.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        (n,) float64 array
            log p(x) in nats; −inf where it is below what float64 holds.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            When rows are not finite numbers, or have other features than those of `fit`.
        """
        rows = self._rows(X)
        return self.model_.score_samples(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of rows.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.
        y : object
            Ignored.

        Returns
        -------
        float
            Nats per row.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.score(rows)

    def predict(self, X: Any) -> Int64:
        """The most probable component of each row.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        (n,) int64 array
            Numbers of components.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.predict(rows)

    def predict_proba(self, X: Any) -> Float64:
        """Posterior probabilities of the components.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        (n, C) float64 array
            Each row sums to 1.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.predict_proba(rows)

    def transform(self, X: Any) -> Float64:
        """Posterior mean of the factors of each row's most probable component.

        Coordinates of rows with different components are not comparable: each component has factors of its own.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        (n, H) float64 array
            In units of the factors' standard deviations; a data frame where `set_output` asks for one.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.transform(rows)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Float64, Int64]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        random_state : int or numpy.random.RandomState, optional
            By default that of the estimator: repeated calls with an integer draw the same rows.

        Returns
        -------
        rows : (n_samples, D) float64 array
            In the units of the data.
        components : (n_samples,) int64 array
            The component of each row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            When `n_samples` is not positive.
        """
        check_is_fitted(self, "model_")
        return self.model_.sample(n_samples, seed_of(self.random_state if random_state is None else random_state))

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of rows.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        float
            Nats of all rows together; lower is better.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.bic(rows)

    def aic(self, X: Any) -> float:
        """Akaike's information criterion of rows.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Rows.

        Returns
        -------
        float
            Nats of all rows together; lower is better.

        Raises
        ------
        NotFittedError, ValueError
            As `score_samples`.
        """
        rows = self._rows(X)
        return self.model_.aic(rows)

    @property
    def weights_(self) -> Float64:
        """Mixing proportions, (C,) float64."""
        return self.model_.weights

    @property
    def means_(self) -> Float64:
        """Means in the units of the data, (C, D) float64."""
        return self.model_.means

    @property
    def loadings_(self) -> FloatArray:
        """Loadings in the units of the data, (C, H, D)."""
        return self.model_.loadings

    @property
    def noise_variances_(self) -> FloatArray:
        """Noise variances in squared units of the data, (C, D)."""
        return self.model_.noise_variances

    @property
    def covariances_(self) -> Float64:
        """Covariance matrices of all components, (C, D, D) float64, where they take no more than 128 MiB.

        Raises
        ------
        AttributeError
            When they are larger; ``model_.covariance(c)`` makes one.
        """
        c, d = self.model_.n_components, self.model_.n_features
        if 8 * c * d**2 > _MOST_COVARIANCE_BYTES:
            raise AttributeError(
                f"covariances_: {c} matrices of {d} x {d} numbers take {as_size(8 * c * d**2)}, more than "
                f"{as_size(_MOST_COVARIANCE_BYTES)}; model_.covariance(c) makes one, and loadings_ and "
                "noise_variances_ hold all of them"
            )
        return np.stack([self.model_.covariance(component) for component in range(c)])

    @property
    def _n_features_out(self) -> int:
        """Columns of `transform`, for the names of features."""
        return self.model_.n_factors

    def _rows(self, X: Any) -> NDArray[Any]:
        """Rows for the model, checked as in every estimator: finite numbers, and the features of `fit`."""
        check_is_fitted(self, "model_")
        rows: NDArray[Any] = validate_data(self, X, reset=False, dtype=ROW_DTYPES)
        return rows
