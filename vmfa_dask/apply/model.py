"""A fitted mixture as its users hold it: plain arrays that score and cluster without a cluster."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from vmfa_dask.apply.inference import Bounds, Evaluator, as_source
from vmfa_dask.apply.search import free_energy_by_search
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

    def score_samples(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Float64:
        """Log-density log p(x) of each row.

        Parameters
        ----------
        x : (n, D) or (n, *feature_shape), any integer or float dtype, in any form that a fit takes; what is not in
            memory is read block by block
        array : path of the array in a Zarr group, or of the variable in a Dataset
        sample_dim : dimension of an xarray variable that counts samples; needed unless the first one says so by name

        Returns
        -------
        (n,) float64, nats.

        Raises
        ------
        ValueError
            When rows have another width or layout than the model or hold NaN or infinity, or it is not clear what to
            read.
        """
        return Evaluator(self).score_samples(as_source(self, x, array, sample_dim))

    def score(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Mean log-density per row, nats; arguments as `score_samples`."""
        return float(np.mean(self.score_samples(x, array, sample_dim)))

    def predict(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Int64:
        """Component of largest joint probability of each row, (n,) int64; arguments as `score_samples`."""
        return Evaluator(self).predict(as_source(self, x, array, sample_dim))

    def bounds(self, x: Any, truncation: int = 3, array: str | None = None, sample_dim: str | None = None) -> Bounds:
        """Free energy, score and an upper bound of it, from the best components of each row (paper, eq. ll_bounds).

        Parameters
        ----------
        x, array, sample_dim : rows, as in `score_samples`
        truncation : C', components kept per row, 1 to C

        Raises
        ------
        ValueError
            As `score_samples`, and when `truncation` is outside its range.
        """
        self._check_truncation(truncation)
        return Evaluator(self).bounds(as_source(self, x, array, sample_dim), truncation)

    def free_energy(
        self,
        x: Any,
        truncation: int = 3,
        neighborhood: int = 15,
        array: str | None = None,
        sample_dim: str | None = None,
    ) -> float:
        """Lower bound of `score` for very many components: the best ones of each row are searched, not picked from all.

        The search is that of a fit (paper, Algorithm 1), repeated with these parameters until it has converged, so that
        the cost grows with C' and G, not with C. Search misses the best components of a few rows. It pays for thousands
        of components and far more rows; elsewhere `bounds` costs less and says more.

        Parameters
        ----------
        x, array, sample_dim : rows, as in `score_samples`
        truncation, neighborhood : C' and G, as in `Settings`

        Returns
        -------
        Mean per row, nats; at most `score`, and at most the free energy that `bounds` gives.

        Raises
        ------
        ValueError
            As `bounds`.
        """
        self._check_truncation(truncation)
        return free_energy_by_search(self, as_source(self, x, array, sample_dim), truncation, neighborhood)

    def _check_truncation(self, truncation: int) -> None:
        if not 1 <= truncation <= self.n_components:
            raise ValueError(f"truncation={truncation}: expected 1 to n_components={self.n_components}")

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
