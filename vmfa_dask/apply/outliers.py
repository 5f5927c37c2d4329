"""Outliers: rows whose density is below that of nearly all rows like those of the training.

May import: apply, numpy.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.apply.labelled import OUTLIER, relabelled
from vmfa_dask.apply.parameters import ModelParameters


class _Scoring(Protocol):
    """A model, as far as outliers need it."""

    def score_samples(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Any: ...


class Outliers(ModelParameters):
    """What a `MixtureModel` knows of rows that it does not expect."""

    def outlier_threshold(
        self: _Scoring,
        x: Any,
        false_positive_rate: float = 0.01,
        array: str | None = None,
        sample_dim: str | None = None,
    ) -> float:
        """Log-density below which a row counts as an outlier, from normal rows that the model was not trained on.

        Parameters
        ----------
        x, array, sample_dim
            Held-out rows, as in `score_samples`; training rows score higher than new ones, and would give a threshold
            that is too high.
        false_positive_rate : float
            Share of normal rows that may be called outliers, above 0 and below 1.

        Returns
        -------
        float
            Nats: the largest score of these rows of which no more than this share of them is below it.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`, and when the rate is outside its range, or so small that not one of these rows would be
            an outlier.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], np.zeros((1, 0, 2)), [[1.0, 1.0]])
        >>> normal, _ = model.sample(1000)
        >>> threshold = model.outlier_threshold(normal, false_positive_rate=0.05)
        >>> model.is_outlier([[0.5, 0.5], [9.0, 9.0]], threshold)
        array([False,  True])
        >>> int(model.is_outlier(normal, threshold).sum())
        50
        """
        if not 0 < false_positive_rate < 1:
            raise ValueError(f"false_positive_rate={false_positive_rate}: expected a share above 0 and below 1")
        scores = np.sort(self.score_samples(x, array, sample_dim))
        # Rounding of the product must not lose a row: 0.29 * 100 is 28.999999999999996.
        n_below = int(np.floor(false_positive_rate * len(scores) * (1 + 1e-12)))
        if n_below == 0:
            raise ValueError(
                f"false_positive_rate={false_positive_rate} of {len(scores)} rows is less than one row; expected at "
                f"least {1 / len(scores):.3g}, or more rows"
            )
        return float(scores[n_below])

    def is_outlier(
        self: _Scoring, x: Any, threshold: float, array: str | None = None, sample_dim: str | None = None
    ) -> NDArray[np.bool_]:
        """Whether the log-density of each row is below a threshold.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.
        threshold : float
            Nats, such as from `outlier_threshold`.

        Returns
        -------
        (n,) bool array
            True for outliers. For an object of xarray a DataArray, as in `score_samples`.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`.

        Examples
        --------
        See `outlier_threshold`.
        """
        below: NDArray[np.bool_] = self.score_samples(x, array, sample_dim) < threshold
        return relabelled(below, OUTLIER)
