"""Results of rows of xarray: labelled like the rows, and lazy where the rows are.

A method of a model that computes something of each row calls `per_row` and gets this for rows of xarray. xarray is
imported when such rows come. May import: values, run, store, apply, numpy, xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.apply.parameters import ModelParameters
from vmfa_dask.apply.row_functions import RowFunction
from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.store.conventions import labelled_rows
from vmfa_dask.store.dask_rows import DaskRows
from vmfa_dask.store.gate import is_labelled
from vmfa_dask.tables import Origin
from vmfa_dask.values import Int64

Model = TypeVar("Model", bound=ModelParameters)
Values = TypeVar("Values")


@dataclass(frozen=True)
class RowResult:
    """What a function computes of each row, and what the DataArray of it is called.

    Parameters
    ----------
    name : str
        Name of the DataArray.
    attributes : mapping
        Attributes of it, by the CF conventions.
    dtype : str
        Of the values.
    axis : {"component", "factor"}, optional
        Second dimension of the values, if they have one: C or H numbers for each row.
    like_rows : bool
        The values are rows again, (n, D) or (n, *feature_shape): the DataArray keeps name, dimensions, coordinates and
        attributes of the rows.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    dtype: str = "float64"
    axis: str | None = None
    like_rows: bool = False


_RESULTS = {
    "score_samples": RowResult("log_density", {"long_name": "log-density", "units": "nats"}),
    "predict": RowResult("label", {"long_name": "most probable component"}, "int64"),
    "predict_proba": RowResult(
        "probability", {"long_name": "posterior probability", "units": "1"}, axis="component"
    ),
    "transform": RowResult("factors", {"long_name": "posterior mean of the factors", "units": "1"}, axis="factor"),
    "reconstruct": RowResult("reconstruction", like_rows=True),
}
COMPLETED = RowResult("completed", like_rows=True)
OBSERVED_LOG_DENSITY = RowResult(
    "observed_log_density", {"long_name": "log-density of the observed values", "units": "nats"}
)
OUTLIER = RowResult("outlier", {"long_name": "whether the log-density is below the threshold"}, "bool")


def labels_of(function: RowFunction) -> RowResult | None:
    """What the result of a method of a model is called.

    Parameters
    ----------
    function : RowFunction
        The method.

    Returns
    -------
    RowResult or None
        None where the result is no single array.
    """
    return _RESULTS[function.method] if len(function.columns) == 1 else None


def per_row(
    compute: Callable[[Model, RowSource], Values],
    model: Model,
    x: Any,
    array: str | None,
    sample_dim: str | None,
    result: RowResult | None,
) -> Values:
    """Compute something of each row, with the labels of the rows if they have any.

    Parameters
    ----------
    compute : callable
        Called with the model and the rows; returns an array whose first axis counts rows. A function of a module, or
        a `functools.partial` of one, so that workers of Dask find it.
    model : MixtureModel
        The model.
    x : array_like of shape (n, D) or (n, *feature_shape)
        In any form that a fit takes.
    array, sample_dim : str, optional
        As in `as_source`.
    result : RowResult or None
        What `compute` returns; None for results without labels.

    Returns
    -------
    ndarray or xarray.DataArray
        What `compute` returns. For an object of xarray a DataArray with the coordinates of its samples, which is
        computed chunk by chunk when it is needed if `x` is backed by Dask.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        As `as_source`. What is wrong with single numbers of lazy rows is raised when they are computed.
    """
    if result is None or not is_labelled(x):
        return compute(model, as_source(model.mixture, x, array, sample_dim))
    import xarray

    rows = labelled_rows("x", x, array, sample_dim)
    sample, *features = rows.dims
    source = as_source(model.mixture, rows, sample_dim=sample)
    assert isinstance(source, ArrayRows | DaskRows)
    if isinstance(source, DaskRows):
        rows = rows.copy(data=source.array)
    holder = np.empty((), object)  # an argument of its own, which Dask sends once to each worker, not with every chunk
    holder[()] = model
    sizes = {"component": model.n_components, "factor": model.n_factors}
    axes = {dim: rows.sizes[dim] for dim in features} if result.like_rows else {}
    axes |= {result.axis: sizes[result.axis]} if result.axis else {}
    values = xarray.apply_ufunc(
        _of_part,
        rows,
        np.arange(rows.sizes[sample]),
        holder,
        kwargs={"compute": compute, "origin": source.origin, "shape": tuple(axes.values()), "dtype": result.dtype},
        input_core_dims=[features, [], []],
        output_core_dims=[list(axes)],
        exclude_dims=set() if result.like_rows else set(features),  # one of them may be called "component" too
        dask="parallelized",
        output_dtypes=[np.dtype(result.dtype)],
        dask_gufunc_kwargs={"allow_rechunk": True, "output_sizes": axes},
        keep_attrs="override",
    )
    if not result.like_rows:
        values.name, values.attrs = result.name, dict(result.attributes)
    return values  # type: ignore[no-any-return]


def relabelled(values: Values, result: RowResult) -> Values:
    """Give a result that was computed from another one its own name and attributes.

    Parameters
    ----------
    values : ndarray or xarray.DataArray
        Of each row.
    result : RowResult
        What they are.

    Returns
    -------
    ndarray or xarray.DataArray
        An ndarray as it is.
    """
    if is_labelled(values):
        values = values.rename(result.name)  # type: ignore[attr-defined]
        values.attrs = dict(result.attributes)  # type: ignore[attr-defined]
    return values


class _Part(ArrayRows):
    """Rows of a chunk, which have their numbers among all rows in messages."""

    def __init__(self, values: Any, origin: Origin, first: int) -> None:
        super().__init__(values, 1, origin)
        self._first = first

    def describe(self, row: int) -> str:
        """Where a row lies; see `RowSource.describe`."""
        return super().describe(self._first + row)


def _of_part(
    part: Any,
    numbers: Int64,
    holder: Any,
    compute: Callable[[Any, RowSource], Any],
    origin: Origin,
    shape: tuple[int, ...],
    dtype: str,
) -> Any:
    """The result of some rows, in the shape and dtype that were announced; a chunk may be empty."""
    if not len(part):
        return np.empty((0, *shape), dtype)
    rows = _Part(part, origin, int(numbers[0]))
    return np.asarray(compute(holder.item(), rows), dtype).reshape(len(part), *shape)
