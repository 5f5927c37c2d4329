"""Models as Zarr groups that xarray opens: arrays with named dimensions, everything else in attributes.

Nothing but arrays and JSON is written or read; no code runs on load. May import: values, zarr.
"""

from __future__ import annotations

import os
import shutil
import uuid
from typing import Any

import zarr

from vmfa_dask.store.arrays import open_group, read_array, write_array
from vmfa_dask.values import Mixture

FORMAT, FORMAT_VERSION = "vmfa_dask.mixture", 1

_DIMENSIONS = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "loadings": ("component", "factor", "feature"),
    "noise_variances": ("component", "feature"),
    "offset": ("feature",),
}


def save_mixture(
    mixture: Mixture, path: str, overwrite: bool = False, provenance: dict[str, Any] | None = None
) -> None:
    """Write a mixture to a folder; it appears whole or not at all.

    Parameters
    ----------
    mixture : what is saved
    path : folder of the Zarr group
    overwrite : replace what is there
    provenance : plain values that say where the model comes from

    Raises
    ------
    FileExistsError
        When `path` exists and `overwrite` is not set.
    """
    path = os.path.abspath(os.fspath(path))
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    partial = f"{path}.{uuid.uuid4().hex[:8]}.partial"
    group = zarr.open_group(partial, mode="w")
    group.attrs.update(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": mixture.version,
            "feature_shape": list(mixture.feature_shape),
            "provenance": provenance or {},
        }
    )
    for name, dimensions in _DIMENSIONS.items():
        write_array(group, name, getattr(mixture, name), dimensions)
    if os.path.exists(path):
        shutil.rmtree(path)
    os.rename(partial, path)


def load_mixture(path: str) -> Mixture:
    """Read a mixture that `save_mixture` wrote.

    Raises
    ------
    FileNotFoundError
        When nothing is stored at `path`.
    ValueError
        When it is something else, incomplete, or of a format newer than this version of the package knows.
    """
    path = os.fspath(path)
    try:
        group = open_group(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no model is stored there") from error
    attributes = dict(group.attrs)
    if attributes.get("format") != FORMAT:
        raise ValueError(f"{path}: format is {attributes.get('format')!r}, expected {FORMAT!r}")
    format_version = attributes.get("format_version")
    if not isinstance(format_version, int) or format_version > FORMAT_VERSION:
        raise ValueError(
            f"{path}: written in format {format_version}, this version reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to load it"
        )
    arrays: dict[str, Any] = {name: read_array(group, name, path) for name in _DIMENSIONS}
    shape: Any = attributes["feature_shape"]
    version: Any = attributes["version"]
    return Mixture(**arrays, feature_shape=tuple(shape), version=int(version))
