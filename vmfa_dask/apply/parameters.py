"""The parameters of a model as users read and save them: plain arrays, sizes, and the model on one screen.

May import: sizes, values, store, apply, numpy.
"""

from __future__ import annotations

import operator
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.apply.summary import as_lines, as_size, as_table
from vmfa_dask.sizes import Sized
from vmfa_dask.store.models import load_mixture, save_mixture
from vmfa_dask.values import Float64, FloatArray, Mixture

_NAMES = ("weights", "means", "loadings", "noise_variances")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ModelParameters(Sized):
    """Parameters of a mixture and the type of the model; `MixtureModel` adds what it does with rows.

    Parameters
    ----------
    mixture : Mixture
        The parameters, means relative to an offset.
    type : ModelType
        Constraints on them.
    """

    mixture: Mixture
    type: ModelType

    def _set(self, mixture: Mixture, model_type: ModelType) -> None:
        object.__setattr__(self, "mixture", mixture)
        object.__setattr__(self, "type", model_type)

    @classmethod
    def _holding(cls, mixture: Mixture, model_type: ModelType) -> Self:
        model = cls.__new__(cls)
        model._set(mixture, model_type)
        return model

    @classmethod
    def of(cls, mixture: Mixture, model_type: ModelType = ModelType()) -> Self:  # noqa: B008
        """Make a model of given parameters, without components of weight 0.

        Parameters
        ----------
        mixture : Mixture
            Parameters; the weights are normalised.
        model_type : ModelType
            Constraints on them.

        Returns
        -------
        MixtureModel
            Shares its arrays with `mixture` where that is possible.

        Raises
        ------
        ValueError
            When a parameter is outside its range.
        """
        alive = mixture.weights > 0
        parts = {name: getattr(mixture, name) for name in _NAMES}
        if not alive.all():
            parts = {name: array[alive] for name, array in parts.items()}
        parts["weights"] = parts["weights"] / parts["weights"].sum()
        return cls._holding(replace(mixture, **parts).checked(), model_type)

    def __getstate__(self) -> dict[str, Any]:
        return {"mixture": self.mixture, "type": self.type}  # not the means, which follow from the mixture

    def __eq__(self, other: object) -> bool:
        """Whether sizes, type and all parameters are equal, in the units of the data."""
        if not isinstance(other, type(self)):
            return False
        same = (self.type, self.feature_shape) == (other.type, other.feature_shape)
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _NAMES)

    def __hash__(self) -> int:
        return hash((self.type, self.feature_shape, self.loadings.shape, float(self.weights[0])))

    def __repr__(self) -> str:
        return as_lines(type(self).__name__, self.facts())

    def _repr_html_(self) -> str:
        return as_table(type(self).__name__, self.facts())

    def facts(self) -> dict[str, str]:
        """Describe the model in words.

        Returns
        -------
        dict of str to str
            Sizes, type and bytes, by name.
        """
        shape = " x ".join(map(str, self.feature_shape))
        n_bytes = sum(getattr(self.mixture, name).nbytes for name in _NAMES)
        return {
            "components": f"{self.n_components:,}",
            "features": f"{self.n_features:,}" + (f" ({shape})" if len(self.feature_shape) > 1 else ""),
            "factors": f"{self.n_factors}",
            "type": str(self.type),
            "free parameters": f"{self.n_parameters:,}",
            "arrays": f"{self.loadings.dtype.name}, {as_size(n_bytes)}",
        }

    @property
    def weights(self) -> Float64:
        """Mixing proportions, (C,) float64."""
        return self.mixture.weights

    @cached_property
    def means(self) -> Float64:
        """Means in the units of the data, (C, D) float64."""
        means = self.mixture.means.astype(np.float64) + self.mixture.offset
        means.flags.writeable = False
        return means

    @property
    def component_means(self) -> Float64:
        """`means` in the shape of rows, (C, *feature_shape) float64."""
        return self.means.reshape(-1, *self.feature_shape)

    @property
    def loadings(self) -> FloatArray:
        """Loadings in the units of the data, (C, H, D); the row of each factor is contiguous."""
        return self.mixture.loadings

    @property
    def noise_variances(self) -> FloatArray:
        """Noise variances in squared units of the data, (C, D)."""
        return self.mixture.noise_variances

    def covariance(self, component: int) -> Float64:
        """Covariance matrix of one component: loadings and noise together.

        Parameters
        ----------
        component : int
            Its number, from 0.

        Returns
        -------
        (D, D) float64 array
            In squared units of the data.

        Raises
        ------
        IndexError
            When there is no such component.

        Examples
        --------
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel(
        ...     weights=[1.0], means=[[0.0, 0.0]], loadings=[[[1.0, 2.0]]], noise_variances=[[0.5, 0.5]]
        ... )
        >>> model.covariance(0)
        array([[1.5, 2. ],
               [2. , 4.5]])
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
        """C, number of components."""
        return self.mixture.n_components

    @property
    def n_features(self) -> int:
        """D, number of features."""
        return self.mixture.n_features

    @property
    def n_factors(self) -> int:
        """H, columns of each loading matrix."""
        return self.mixture.n_factors

    @property
    def n_parameters(self) -> int:
        """Free parameters of a model of this type and size (`ModelType.n_parameters`)."""
        return self.type.n_parameters(self.n_components, self.n_features, self.n_factors)

    def save(
        self, path: str | os.PathLike[str], overwrite: bool = False, provenance: dict[str, Any] | None = None
    ) -> None:
        """Save as a Zarr group, which xarray opens too; in a folder it appears whole or not at all.

        Parameters
        ----------
        path : str or path
            Folder, or URL of an object store.
        overwrite : bool
            Replace a model that is there; anything else is refused.
        provenance : dict, optional
            Plain values that say where the model comes from.

        Raises
        ------
        FileExistsError
            When something is at `path` and `overwrite` is not set, or it is no model.
        OSError
            When `path` cannot be written.
        ValueError
            When `path` is the URL of another service, or `provenance` is too long or too deep to be read again.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], np.zeros((1, 0, 2)), [[1.0, 1.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.zarr")
        ...     MixtureModel.load(f"{folder}/model.zarr") == model
        True
        """
        save_mixture(self.mixture, path, overwrite, provenance, asdict(self.type))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model that `save` has written; no code runs, and checksums are compared.

        Parameters
        ----------
        path : str or path
            Folder, or URL of an object store.

        Returns
        -------
        MixtureModel
            With the parameters of the saved one, bit by bit.

        Raises
        ------
        FileNotFoundError
            When there is nothing at `path`.
        ValueError
            When it is no model, or a damaged one.

        Examples
        --------
        See `save`.
        """
        mixture, model_type = load_mixture(path)
        try:
            return cls._holding(mixture, ModelType(**model_type))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: the type of the model is damaged: {error}") from error
