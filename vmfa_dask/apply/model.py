"""A fitted mixture as its users hold it: plain arrays that score and cluster rows without a cluster.

May import: values, apply, numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vmfa_dask.apply.bounds import Bounds, bounds_of, checked_truncation
from vmfa_dask.apply.completion import Completion
from vmfa_dask.apply.components import Components
from vmfa_dask.apply.labelled_parameters import LabelledParameters
from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.apply.outliers import Outliers
from vmfa_dask.apply.row_methods import RowMethods
from vmfa_dask.apply.sampling import Sampling
from vmfa_dask.apply.searched_energy import free_energy_by_search
from vmfa_dask.values import Mixture, as_floats


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MixtureModel(RowMethods, Completion, Components, LabelledParameters, Outliers, Sampling):
    """A fitted mixture; its results are exact over all C components.

    The free energy of a fit's history is a lower bound of `score` on the same rows, not the same number: it counts only
    the kept components of each row. The first call that evaluates rows packs the parameters; the packed form takes
    about as much memory as they do, and lives as long as the model.

    Parameters
    ----------
    weights : array_like of shape (C,)
        Mixing proportions.
    means : array_like of shape (C, D)
        In the units of the data.
    loadings : array_like of shape (C, H, D)
        In the units of the data; the row of each factor is contiguous. H may be 0.
    noise_variances : array_like of shape (C, D)
        Positive, in squared units of the data.
    feature_shape : tuple of int
        Shape of one row, such as (32, 32, 3); by default (D,).
    covariance_type : {"mfa", "diagonal", "isotropic"}
        As in `Settings`; `n_parameters` follows from it.
    noise : {"component", "shared"}
        As in `Settings`.
    learn_weights : bool
        As in `Settings`.

    Raises
    ------
    ValueError
        When shapes disagree or a parameter is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from vmfa_dask import MixtureModel
    >>> model = MixtureModel(
    ...     weights=[0.25, 0.75],
    ...     means=[[0.0, 0.0], [9.0, 9.0]],
    ...     loadings=np.zeros((2, 0, 2)),
    ...     noise_variances=np.ones((2, 2)),
    ...     covariance_type="diagonal",
    ... )
    >>> model
    MixtureModel
      components:      2
      features:        2
      factors:         0
      type:            diagonal, noise of each component
      free parameters: 9
      arrays:          float64, 80 bytes
    """

    def __init__(
        self,
        weights: Any,
        means: Any,
        loadings: Any,
        noise_variances: Any,
        feature_shape: tuple[int, ...] = (),
        *,
        covariance_type: str = "mfa",
        noise: str = "component",
        learn_weights: bool = True,
    ) -> None:
        arrays = (as_floats(means), as_floats(loadings), as_floats(noise_variances))
        mixture = Mixture(np.asarray(weights, np.float64), *arrays, feature_shape).checked()
        self._set(mixture, ModelType(covariance_type, noise, learn_weights))

    def score(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Mean log-density of rows.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.

        Returns
        -------
        float
            Nats per row.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], np.zeros((1, 0, 2)), [[1.0, 1.0]])
        >>> round(model.score([[0.0, 0.0], [3.0, 4.0]]), 3)
        -8.088
        """
        with np.errstate(over="ignore"):
            return float(np.mean(np.asarray(self.score_samples(x, array, sample_dim))))

    def aic(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Akaike's information criterion of rows.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.

        Returns
        -------
        float
            Nats of all rows together; lower is better.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`.
        """
        return 2.0 * self.n_parameters - 2.0 * float(np.asarray(self.score_samples(x, array, sample_dim)).sum())

    def bic(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Bayesian information criterion of rows.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.

        Returns
        -------
        float
            Nats of all rows together; lower is better.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`.
        """
        scores = np.asarray(self.score_samples(x, array, sample_dim))
        return self.n_parameters * float(np.log(len(scores))) - 2.0 * float(scores.sum())

    def bounds(
        self, x: Any, truncation: int | None = None, array: str | None = None, sample_dim: str | None = None
    ) -> Bounds:
        """Free energy, score and an upper bound of it, from the best components of each row (paper, eq. ll_bounds).

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.
        truncation : int, optional
            C', components kept per row, 1 to C; by default 3, or C where there are fewer.

        Returns
        -------
        Bounds
            Nats per row.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `score_samples`, and when `truncation` is outside its range.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([0.5, 0.5], [[0.0, 0.0], [2.0, 2.0]], np.zeros((2, 0, 2)), np.ones((2, 2)))
        >>> bounds = model.bounds([[0.5, -0.5], [1.0, 1.5]], truncation=1)
        >>> bounds.free_energy < bounds.score < bounds.upper
        True
        """
        truncation = checked_truncation(truncation, self.n_components)
        return bounds_of(self._evaluator, as_source(self.mixture, x, array, sample_dim), truncation)

    def free_energy(
        self,
        x: Any,
        truncation: int | None = None,
        neighborhood: int = 15,
        array: str | None = None,
        sample_dim: str | None = None,
    ) -> float:
        """Lower bound of `score` for very many components: the best ones of each row are searched for.

        The search is that of a fit (paper, Algorithm 1), repeated with these parameters until it has converged, so that
        the cost grows with C' and G, not with C. It misses the best components of a few rows. It pays for thousands of
        components and far more rows; otherwise `bounds` costs less and says more.

        Parameters
        ----------
        x, array, sample_dim
            Rows, as in `score_samples`.
        truncation : int, optional
            C', components kept per row, 1 to C; by default 3, or C where there are fewer.
        neighborhood : int
            G, neighbours that each kept component proposes.

        Returns
        -------
        float
            Nats per row; at most `score`, and at most the free energy that `bounds` gives.

        Raises
        ------
        TypeError, ValueError, FileNotFoundError
            As `bounds`.
        """
        truncation = checked_truncation(truncation, self.n_components)
        rows = as_source(self.mixture, x, array, sample_dim)
        return free_energy_by_search(self.mixture, rows, truncation, neighborhood)
