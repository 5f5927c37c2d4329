"""Models as Zarr groups that xarray opens: arrays with named dimensions, everything else in attributes.

Nothing but arrays and JSON is written or read; no code runs on load. May import: values, zarr.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import zarr

from vmfa_dask.store.arrays import open_group, read_array, write_array
from vmfa_dask.store.objects import ObjectPlace, zarr_target
from vmfa_dask.store.places import locate, place_at
from vmfa_dask.store.replacing import MARK, current, replace_tree
from vmfa_dask.values import FloatArray, Mixture

# Format 1 had means relative to the offset, and no type.
FORMAT, FORMAT_VERSION = "vmfa_dask.mixture", 2
_BEGUN = f"{FORMAT}.incomplete"

_DIMENSIONS = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "loadings": ("component", "factor", "feature"),
    "noise_variances": ("component", "feature"),
    "offset": ("feature",),
}
# Means relative to the offset, where they do not follow from `means` to the last bit.
_CENTERED = "centered_means"
_FILES = re.compile(rf"zarr\.json|({'|'.join([*_DIMENSIONS, _CENTERED])})/(zarr\.json|c(/\d+)*)")


def save_mixture(
    mixture: Mixture,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    provenance: dict[str, Any] | None = None,
    model_type: dict[str, Any] | None = None,
) -> None:
    """Write a mixture; in a folder it appears whole or not at all, and an old model stays until then.

    An object store has no renames: while a model there is replaced, none can be loaded.

    Parameters
    ----------
    mixture : what is saved; its means are stored in the units of the data
    path : folder of the Zarr group, or URL of an object store
    overwrite : replace the model that is there
    provenance : plain values that say where the model comes from
    model_type : plain values that say of which type it is

    Raises
    ------
    FileExistsError
        When something is at `path` and `overwrite` is not set, or it is no model.
    ValueError
        When `path` is the URL of another service.
    """
    attributes: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": mixture.version,
        "feature_shape": list(mixture.feature_shape),
        "type": model_type or {},
        "provenance": provenance or {},
    }
    arrays: dict[str, Any] = {name: getattr(mixture, name) for name in _DIMENSIONS}
    if mixture.offset.any():
        arrays["means"] = mixture.means.astype(np.float64) + mixture.offset
        if not np.array_equal(_centered(arrays["means"], mixture.offset, mixture.loadings.dtype), mixture.means):
            arrays[_CENTERED] = mixture.means

    def write(target: Any) -> None:
        group = zarr.create_group(target, overwrite=True, attributes={"format": _BEGUN})
        for name, array in arrays.items():
            write_array(group, name, array, _DIMENSIONS.get(name, _DIMENSIONS["means"]))
        group.attrs.update(attributes)  # last: they mark the model as complete

    replace_tree(locate(path), overwrite, write, lambda found: found.get("format") in (FORMAT, _BEGUN), _FILES)


def _centered(means: Any, offset: Any, dtype: Any) -> FloatArray:
    """Means relative to the offset, as they were before the offset was added."""
    centered: FloatArray = (means - offset).astype(dtype)
    return centered


def load_mixture(path: str | os.PathLike[str]) -> tuple[Mixture, dict[str, Any]]:
    """Read a mixture that `save_mixture` wrote, and the values of its type.

    Raises
    ------
    FileNotFoundError
        When nothing is stored at `path`.
    ValueError
        When it is something else, incomplete, or of a format newer than this version of the package knows; when
        `path` is the URL of another service.
    OSError
        When an object store cannot be read.
    """
    path = current(locate(path))
    group = _open(path)
    attributes = dict(group.attrs)
    if attributes.get("format") == _BEGUN:
        raise ValueError(f"{path}: the model is incomplete: saving it was interrupted, or is still going on")
    if attributes.get("format") != FORMAT:
        raise ValueError(f"{path}: format is {attributes.get('format')!r}, expected {FORMAT!r}")
    format_version = attributes.get("format_version")
    if not isinstance(format_version, int) or format_version > FORMAT_VERSION:
        raise ValueError(
            f"{path}: written in format {format_version}, this version reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to load it"
        )
    arrays: dict[str, Any] = {name: read_array(group, name, path) for name in _DIMENSIONS}
    if format_version > 1 and arrays["offset"].any():
        if _CENTERED in group:
            arrays["means"] = read_array(group, _CENTERED, path)
        else:
            arrays["means"] = _centered(arrays["means"], arrays["offset"], arrays["loadings"].dtype)
    shape: Any = attributes["feature_shape"]
    version: Any = attributes["version"]
    model_type: Any = attributes.get("type", {})
    return Mixture(**arrays, feature_shape=tuple(shape), version=int(version)), model_type


def _open(path: str) -> zarr.Group:
    """The group of a model."""
    place = place_at(path)
    missing = f"{path}: no model is stored there"
    if isinstance(place, ObjectPlace) and place.read(MARK) is None:  # so that errors of the store keep their names
        raise FileNotFoundError(missing)
    try:
        return open_group(path, zarr_target(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(missing) from error
