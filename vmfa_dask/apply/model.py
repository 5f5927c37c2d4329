"""A fitted mixture as its users hold it: plain arrays that score and cluster without a cluster."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from vmfa_dask.apply.inference import Evaluator, as_rows
from vmfa_dask.store.models import load_mixture, save_mixture
from vmfa_dask.values import Float64, Int64, Mixture


class MixtureModel(Mixture):
    """A `Mixture` with inference; results are exact over all C components.

    The free energy of a fit's history is a lower bound of `score` on the same rows, not the same number: it counts the
    kept components alone.
    """

    @classmethod
    def of(cls, mixture: Mixture) -> MixtureModel:
        """The model of given parameters, without components of weight 0."""
        alive = mixture.weights > 0
        weights = mixture.weights[alive] / mixture.weights[alive].sum()
        return cls(
            weights,
            mixture.means[alive],
            mixture.loadings[alive],
            mixture.noise_variances[alive],
            mixture.feature_shape,
            mixture.offset,
            mixture.version,
        )

    @property
    def n_parameters(self) -> int:
        """Free parameters: C − 1 weights and, per component, D means, D noise variances and D·H loadings."""
        c, d, h = self.n_components, self.n_features, self.n_factors
        return c - 1 + c * d * (2 + h)

    @property
    def component_means(self) -> Float64:
        """Means in the units of the data, (C, *feature_shape) float64."""
        return (self.means.astype(np.float64) + self.offset).reshape(-1, *self.feature_shape)

    def score_samples(self, x: Any) -> Float64:
        """Log-density log p(x) of each row.

        Parameters
        ----------
        x : (n, D) or (n, *feature_shape), any integer or float dtype

        Returns
        -------
        (n,) float64, nats.

        Raises
        ------
        ValueError
            When rows have another width than the model or hold NaN or infinity.
        """
        return Evaluator(self).score_samples(as_rows(self, x))

    def score(self, x: Any) -> float:
        """Mean log-density per row, nats."""
        return float(np.mean(self.score_samples(x)))

    def predict(self, x: Any) -> Int64:
        """Component of largest joint probability of each row, (n,) int64."""
        return Evaluator(self).predict(as_rows(self, x))

    def save(
        self, path: str | os.PathLike[str], overwrite: bool = False, provenance: dict[str, Any] | None = None
    ) -> None:
        """Save as a Zarr group that xarray opens (see `store.models.save_mixture`)."""
        save_mixture(self, os.fspath(path), overwrite, provenance)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MixtureModel:
        """Load what `save` wrote (see `store.models.load_mixture`)."""
        mixture = load_mixture(os.fspath(path))
        return cls(
            mixture.weights,
            mixture.means,
            mixture.loadings,
            mixture.noise_variances,
            mixture.feature_shape,
            mixture.offset,
            mixture.version,
        )
