"""A fitted mixture as its users hold it: plain arrays that score and cluster without a cluster.

May import: values, apply, store.
"""

from __future__ import annotations

import operator
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vmfa_dask.apply.inference import Bounds, Evaluator, as_source, checked_truncation
from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.apply.search import free_energy_by_search
from vmfa_dask.apply.summary import as_lines, as_size, as_table
from vmfa_dask.sizes import Sized
from vmfa_dask.store.models import load_mixture, save_mixture
from vmfa_dask.values import Float64, FloatArray, Int64, Mixture, as_floats

_NAMES = ("weights", "means", "loadings", "noise_variances")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MixtureModel(Sized):
    """A fitted mixture; its results are exact over all C components.

    The free energy of a fit's history is a lower bound of `score` on the same rows, not the same number: it counts the
    kept components alone.

    Parameters
    ----------
    weights : (C,) mixing proportions
    means : (C, D), in the units of the data
    loadings : (C, H, D); each factor's row is contiguous
    noise_variances : (C, D), positive
    feature_shape : shape of one row, e.g. (32, 32, 3); by default (D,)
    covariance_type, noise, learn_weights : the type of the model, as in `Settings`; `n_parameters` follows from it

    Raises
    ------
    ValueError
        When shapes disagree or a parameter is outside its range.
    """

    mixture: Mixture
    type: ModelType

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

    def _set(self, mixture: Mixture, model_type: ModelType) -> None:
        object.__setattr__(self, "mixture", mixture)
        object.__setattr__(self, "type", model_type)

    @classmethod
    def _holding(cls, mixture: Mixture, model_type: ModelType) -> MixtureModel:
        model = cls.__new__(cls)
        model._set(mixture, model_type)
        return model

    @classmethod
    def of(cls, mixture: Mixture, model_type: ModelType = ModelType()) -> MixtureModel:  # noqa: B008
        """The model of given parameters, without components of weight 0."""
        alive = mixture.weights > 0
        parts = {name: getattr(mixture, name)[alive] for name in _NAMES}
        parts["weights"] = parts["weights"] / parts["weights"].sum()
        return cls._holding(replace(mixture, **parts).checked(), model_type)

    def __getstate__(self) -> dict[str, Any]:
        return {"mixture": self.mixture, "type": self.type}  # not the means, which follow from the mixture

    def __eq__(self, other: object) -> bool:
        """Whether sizes, type and all parameters are equal, in the units of the data."""
        if not isinstance(other, MixtureModel):
            return False
        same = (self.type, self.feature_shape) == (other.type, other.feature_shape)
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _NAMES)

    def __hash__(self) -> int:
        return hash((self.type, self.feature_shape, self.loadings.shape, float(self.weights[0])))

    def __repr__(self) -> str:
        return as_lines("MixtureModel", self.facts())

    def _repr_html_(self) -> str:
        return as_table("MixtureModel", self.facts())

    def facts(self) -> dict[str, str]:
        """Sizes and type in words, by name."""
        shape = " x ".join(map(str, self.feature_shape))
        size = sum(getattr(self.mixture, name).nbytes for name in _NAMES)
        return {
            "components": f"{self.n_components:,}",
            "features": f"{self.n_features:,}" + (f" ({shape})" if len(self.feature_shape) > 1 else ""),
            "factors": f"{self.n_factors}",
            "type": str(self.type),
            "free parameters": f"{self.n_parameters:,}",
            "arrays": f"{self.loadings.dtype.name}, {as_size(size)}",
        }

    @property
    def weights(self) -> Float64:
        """Mixing proportions, (C,)."""
        return self.mixture.weights

    @cached_property
    def means(self) -> Float64:
        """Means in the units of the data, (C, D) float64."""
        means = self.mixture.means.astype(np.float64) + self.mixture.offset
        means.flags.writeable = False
        return means

    @property
    def component_means(self) -> Float64:
        """`means` in the shape of rows, (C, *feature_shape)."""
        return self.means.reshape(-1, *self.feature_shape)

    @property
    def loadings(self) -> FloatArray:
        """Loadings, (C, H, D); each factor's row is contiguous."""
        return self.mixture.loadings

    @property
    def noise_variances(self) -> FloatArray:
        """Noise variances, (C, D)."""
        return self.mixture.noise_variances

    def covariance(self, component: int) -> Float64:
        """Covariance matrix of one component, (D, D) float64.

        Raises
        ------
        IndexError
            When there is no such component.
        """
        c = operator.index(component)
        if not 0 <= c < self.n_components:
            raise IndexError(f"component={c}: expected 0 to {self.n_components - 1}")
        loadings = self.loadings[c].astype(np.float64)
        matrix: Float64 = loadings.T @ loadings
        matrix[np.diag_indices_from(matrix)] += self.noise_variances[c]
        return matrix

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.mixture.feature_shape

    @property
    def n_components(self) -> int:
        """C."""
        return self.mixture.n_components

    @property
    def n_features(self) -> int:
        """D."""
        return self.mixture.n_features

    @property
    def n_factors(self) -> int:
        """H."""
        return self.mixture.n_factors

    @property
    def n_parameters(self) -> int:
        """Free parameters of a model of this type and size (see `ModelType.n_parameters`)."""
        return self.type.n_parameters(self.n_components, self.n_features, self.n_factors)

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
        return Evaluator(self.mixture).score_samples(as_source(self.mixture, x, array, sample_dim))

    def score(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Mean log-density per row, nats; arguments as `score_samples`."""
        with np.errstate(over="ignore"):
            return float(np.mean(self.score_samples(x, array, sample_dim)))

    def aic(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Akaike's information criterion of the rows, lower is better; arguments as `score_samples`."""
        return 2.0 * self.n_parameters - 2.0 * float(self.score_samples(x, array, sample_dim).sum())

    def bic(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> float:
        """Bayesian information criterion of the rows, lower is better; arguments as `score_samples`."""
        scores = self.score_samples(x, array, sample_dim)
        return self.n_parameters * float(np.log(len(scores))) - 2.0 * float(scores.sum())

    def predict(self, x: Any, array: str | None = None, sample_dim: str | None = None) -> Int64:
        """Component of largest joint probability of each row, (n,) int64; arguments as `score_samples`."""
        return Evaluator(self.mixture).predict(as_source(self.mixture, x, array, sample_dim))

    def bounds(
        self, x: Any, truncation: int | None = None, array: str | None = None, sample_dim: str | None = None
    ) -> Bounds:
        """Free energy, score and an upper bound of it, from the best components of each row (paper, eq. ll_bounds).

        Parameters
        ----------
        x, array, sample_dim : rows, as in `score_samples`
        truncation : C', components kept per row, 1 to C; by default 3, or C where there are fewer

        Raises
        ------
        ValueError
            As `score_samples`, and when `truncation` is outside its range.
        """
        truncation = checked_truncation(truncation, self.n_components)
        return Evaluator(self.mixture).bounds(as_source(self.mixture, x, array, sample_dim), truncation)

    def free_energy(
        self,
        x: Any,
        truncation: int | None = None,
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
        truncation = checked_truncation(truncation, self.n_components)
        rows = as_source(self.mixture, x, array, sample_dim)
        return free_energy_by_search(self.mixture, rows, truncation, neighborhood)

    def save(
        self, path: str | os.PathLike[str], overwrite: bool = False, provenance: dict[str, Any] | None = None
    ) -> None:
        """Save as a Zarr group that xarray opens (see `store.models.save_mixture`).

        Parameters
        ----------
        path : folder, or URL of an object store
        overwrite : replace the model that is there; anything else stays
        provenance : plain values that say where the model comes from
        """
        save_mixture(self.mixture, path, overwrite, provenance, asdict(self.type))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MixtureModel:
        """Load what `save` wrote, from a folder or a URL (see `store.models.load_mixture`)."""
        mixture, model_type = load_mixture(path)
        try:
            return cls._holding(mixture, ModelType(**model_type))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: the type of the model is damaged: {error}") from error
