"""Rows as the functions of a model get them: any form that a fit takes, in the shape of the model.

May import: tables, values, runtime, run, store, numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vmfa_dask.run.row_source import ArrayRows, RowSource
from vmfa_dask.runtime.threads import available_cores
from vmfa_dask.store.dask_rows import DaskRows
from vmfa_dask.store.gate import Lazy, Stored, admit
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.tables import NoFeatures
from vmfa_dask.values import Mixture


def as_source(mixture: Mixture, x: Any, array: str | None = None, sample_dim: str | None = None) -> RowSource:
    """Open rows for a model; those that are not in memory are read row block by row block.

    Parameters
    ----------
    mixture : Mixture
        The model, which the rows must fit.
    x : array_like of shape (n, D) or (n, *feature_shape)
        In any form that `store.gate.admit` takes.
    array : str, optional
        Path of the array in a Zarr group, or name of the variable in a Dataset.
    sample_dim : str, optional
        Dimension of an xarray variable that counts samples.

    Returns
    -------
    RowSource
        Chunks that are not stored are read as fill values; the log names them.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        When the rows have another shape than those of the model, hold no numbers, or it is not clear what to read.
    """
    try:
        return _opened(mixture.feature_shape, x, array, sample_dim)
    except NoFeatures as error:
        expected = _shapes_of_rows(mixture.feature_shape)
        raise ValueError(f"{error.found}; expected {expected}: use reshape(1, -1) for one row") from error


def _opened(feature_shape: tuple[int, ...], x: Any, array: str | None, sample_dim: str | None) -> RowSource:
    form = admit("x", x, array, sample_dim)
    if isinstance(form, Stored):
        stored = ZarrRows(form.url, form.name, missing="fill")
        check_layout(stored.label, stored.feature_shape, feature_shape)
        stored.check_complete()  # logs missing chunks
        stored.use_threads(available_cores())
        return stored
    rows = DaskRows(form.array, form.origin) if isinstance(form, Lazy) else ArrayRows(form.values, 1, form.origin)
    check_layout(form.origin.label, rows.feature_shape, feature_shape)
    return rows


def check_layout(label: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse rows of another shape than the model's: as many features in another layout are other features.

    Parameters
    ----------
    label : str
        What the rows are called.
    shape : tuple of int
        Shape of one of them.
    expected : tuple of int
        Feature shape of the model; rows may be flat as well.

    Raises
    ------
    ValueError
        With both shapes.
    """
    width, n_features = int(np.prod(shape)), int(np.prod(expected))
    if shape in ((n_features,), expected):
        return
    mismatch = f"found shape {_with_rows(shape)}, expected {_shapes_of_rows(expected)}"
    if width != n_features:
        raise ValueError(f"{label}: rows have {width} features, the model has {n_features}: {mismatch}")
    raise ValueError(f"{label}: {mismatch}; bring the axes into the order of the rows on which the model was trained")


def _shapes_of_rows(feature_shape: tuple[int, ...]) -> str:
    """The shapes that rows may have for a model: flat, or as they were trained on."""
    return " or ".join(dict.fromkeys(map(_with_rows, ((int(np.prod(feature_shape)),), feature_shape))))


def _with_rows(feature_shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, feature_shape))})"
