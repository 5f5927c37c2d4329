"""Parameters of a model as a labelled Dataset of xarray, and back. May import: values, apply, numpy, xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vmfa_dask.apply.model_type import ModelType
from vmfa_dask.apply.parameters import ModelParameters
from vmfa_dask.values import Float64, FloatArray, Mixture, as_floats

if TYPE_CHECKING:
    import xarray

FORMAT, FORMAT_VERSION = "vmfa_dask.labelled_mixture", 1
# Dimensions before those of a row.
_LEADING = {
    "weights": ("component",),
    "means": ("component",),
    "loadings": ("component", "factor"),
    "noise_variances": ("component",),
}
_ATTRIBUTES = {
    "weights": {"long_name": "mixing proportion", "units": "1"},
    "means": {"long_name": "mean", "comment": "in the units of the data"},
    "loadings": {"long_name": "factor loading", "comment": "in the units of the data"},
    "noise_variances": {"long_name": "noise variance", "comment": "in squared units of the data"},
    "offset": {"long_name": "offset", "comment": "what training subtracted from the rows; part of the means"},
}
_IMAGE_AXES = {1: ("feature",), 2: ("y", "x"), 3: ("y", "x", "channel")}
_TYPE = ("covariance_type", "noise", "learn_weights")


class LabelledParameters(ModelParameters):
    """The parameters of a `MixtureModel` with names of their dimensions."""

    def to_xarray(self, feature_dims: Sequence[str] | Mapping[str, Any] | None = None) -> xarray.Dataset:
        """Label the parameters: a Dataset with named dimensions, and with attributes that say what they are.

        Parameters
        ----------
        feature_dims : sequence of str, or mapping of str to array_like, optional
            Names of the axes of a row, such as those of the DataArray on which the model was trained; a mapping also
            gives their coordinates. By default ``feature``, ``(y, x)`` or ``(y, x, channel)`` for rows of one to three
            axes, and ``feature_0``, ``feature_1`` ... for more.

        Returns
        -------
        xarray.Dataset
            The variables ``weights (component)``, ``means (component, ...)``, ``loadings (component, factor, ...)`` and
            ``noise_variances (component, ...)``, in the units of the data, where ``...`` are the axes of a row. Its
            attributes are strings and numbers, which Zarr and netCDF hold. Arrays are shared with the model where that
            is possible, and read-only.

        Raises
        ------
        ValueError
            When `feature_dims` does not fit the axes of a row.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], np.zeros((1, 6)), np.zeros((1, 2, 6)), np.ones((1, 6)), feature_shape=(2, 3))
        >>> dict(model.to_xarray().sizes)
        {'component': 1, 'y': 2, 'x': 3, 'factor': 2}
        >>> model.to_xarray({"lat": [50, 51], "lon": [8, 9, 10]}).means.sel(lat=51).shape
        (1, 3)
        """
        import xarray

        dims = _names_of_axes(self.feature_shape, feature_dims)
        variables = {"weights": (_LEADING["weights"], self.weights)}
        for name in ("means", "loadings", "noise_variances"):
            array = getattr(self, name)
            variables[name] = (*_LEADING[name], *dims), array.reshape(*array.shape[:-1], *self.feature_shape)
        if self.mixture.offset.any():
            variables["offset"] = (dims, self.mixture.offset.reshape(self.feature_shape))
        dataset = xarray.Dataset(variables, dict(feature_dims) if isinstance(feature_dims, Mapping) else None)
        for name in variables:
            dataset[name].attrs = dict(_ATTRIBUTES[name])
        dataset.attrs = {
            "Conventions": "CF-1.11",
            "title": "mixture of factor analyzers" if self.n_factors else "Gaussian mixture",
            "source": f"vmfa_dask {resolve_name('vmfa_dask:__version__')}",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{name: getattr(self.type, name) for name in _TYPE},
            "learn_weights": int(self.type.learn_weights),  # netCDF has no truth values
        }
        return dataset

    @classmethod
    def from_xarray(cls, dataset: xarray.Dataset) -> Self:
        """Make a model of a Dataset that `to_xarray` has made.

        Parameters
        ----------
        dataset : xarray.Dataset
            In memory, or opened from a file. The axes of a row are in the order in which ``means`` has them.

        Returns
        -------
        MixtureModel
            Equal to the model that the Dataset was made of, in the same dtype.

        Raises
        ------
        ValueError
            When the Dataset has another format, variables or dimensions are missing, or a parameter is outside its
            range.

        Examples
        --------
        >>> import numpy as np
        >>> from vmfa_dask import MixtureModel
        >>> model = MixtureModel([1.0], [[0.0, 0.0]], np.zeros((1, 0, 2)), [[1.0, 1.0]])
        >>> MixtureModel.from_xarray(model.to_xarray()) == model
        True
        """
        attributes = _checked_attributes(dataset)
        dims = [dim for dim in dataset["means"].dims if dim != "component"]
        shape = tuple(int(dataset.sizes[dim]) for dim in dims)
        arrays = {name: _flat(dataset, name, leading, dims) for name, leading in _LEADING.items()}
        dtype = np.result_type(arrays["loadings"], arrays["noise_variances"])
        offset = _flat(dataset, "offset", (), dims) if "offset" in dataset else np.zeros(1)
        means, offset = _narrowed(arrays["means"], offset.astype(np.float64), dtype)
        weights = arrays["weights"].astype(np.float64)
        mixture = Mixture(weights, means, arrays["loadings"], arrays["noise_variances"], shape, offset)
        values = {name: attributes[name] for name in _TYPE if name in attributes}
        if "learn_weights" in values:
            values["learn_weights"] = bool(values["learn_weights"])
        return cls._holding(mixture.checked(), ModelType(**values))


def _names_of_axes(shape: tuple[int, ...], given: Sequence[str] | Mapping[str, Any] | None) -> tuple[str, ...]:
    if given is None:
        return _IMAGE_AXES.get(len(shape)) or tuple(f"feature_{axis}" for axis in range(len(shape)))
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(names) != len(shape) or len({*names, "component", "factor"}) != len(names) + 2:
        raise ValueError(
            f"feature_dims={list(names)}: expected {len(shape)} different names for the axes of a row, whose shape is "
            f"{shape}, none of them 'component' or 'factor'"
        )
    return names


def _checked_attributes(dataset: xarray.Dataset) -> Mapping[str, Any]:
    """The attributes of a Dataset that holds what this version reads."""
    attributes = {str(name): value for name, value in dataset.attrs.items()}
    if attributes.get("format") != FORMAT:
        raise ValueError(
            f"dataset: its attribute format is {attributes.get('format')!r}, expected {FORMAT!r} as to_xarray writes "
            "it; MixtureModel.load(path) opens a saved model"
        )
    if not 1 <= int(attributes.get("format_version", 0)) <= FORMAT_VERSION:
        raise ValueError(
            f"dataset: written in format {attributes.get('format_version')}, this version reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to read it"
        )
    missing = [name for name in _LEADING if name not in dataset]
    if missing:
        raise ValueError(f"dataset: the variables {', '.join(missing)} are missing; found {list(dataset.data_vars)}")
    return attributes


def _flat(dataset: xarray.Dataset, name: str, leading: Sequence[str], dims: Sequence[Any]) -> FloatArray:
    """A variable as an array whose last axis counts features, if it has them."""
    expected = [*leading, *(() if name == "weights" else dims)]
    if set(dataset[name].dims) != set(expected):
        raise ValueError(f"dataset: {name} has the dimensions {list(dataset[name].dims)}, expected {expected}")
    values = np.asarray(dataset[name].transpose(*expected).values)
    n_features = int(np.prod(values.shape[len(leading) :]))
    return as_floats(values if name == "weights" else values.reshape(*values.shape[: len(leading)], n_features))


def _narrowed(means: FloatArray, offset: Float64, dtype: Any) -> tuple[FloatArray, Float64]:
    """Means relative to the offset in the dtype of the model; the means as they are where that would change them."""
    means = means.astype(np.float64)
    offset = np.broadcast_to(offset, means.shape[1:])
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that are not finite are reported later, by name
        centered: FloatArray = (means - offset).astype(dtype)
    if np.array_equal(centered.astype(np.float64) + offset, means):
        return centered, offset
    return means, np.zeros(means.shape[1])
