"""Models as Zarr groups that xarray opens: arrays with named dimensions, everything else in attributes.

Nothing but arrays and JSON is written or read; no code runs on load. May import: values, zarr, store.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import numpy as np
import zarr

from vmfa_dask.store.arrays import METADATA, describe, read_array, read_group, write_array
from vmfa_dask.store.places import Place, locate, place_at
from vmfa_dask.store.replacing import read_whole, replace_tree
from vmfa_dask.store.strict import MOST_METADATA, as_json, sealed, unsealed
from vmfa_dask.values import FloatArray, Mixture

# Format 1 had means relative to the offset, and no type; up to format 2 neither sizes nor checksums of the whole.
FORMAT, FORMAT_VERSION = "vmfa_dask.mixture", 3
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
_SIZES = ("n_components", "n_features", "n_factors")
# What the checksum of a model covers; others may add attributes of their own.
_SEALED = ("format", "format_version", "version", "feature_shape", *_SIZES, "type", "provenance", "arrays", "checksum")
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
        When `path` is the URL of another service, or `provenance` is too long or too deep to be read again.
    """
    arrays: dict[str, Any] = {name: getattr(mixture, name) for name in _DIMENSIONS}
    if mixture.offset.any():
        arrays["means"] = mixture.means.astype(np.float64) + mixture.offset
        if not np.array_equal(_centered(arrays["means"], mixture.offset, mixture.loadings.dtype), mixture.means):
            arrays[_CENTERED] = mixture.means
    attributes = sealed(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": mixture.version,
            "feature_shape": list(mixture.feature_shape),
            **{name: getattr(mixture, name) for name in _SIZES},
            "type": model_type or {},
            "provenance": _plain(provenance or {}),
            "arrays": describe(arrays),
        }
    )

    def write(target: Any) -> None:
        group = zarr.create_group(target, overwrite=True, attributes={"format": _BEGUN})
        for name, array in arrays.items():
            write_array(group, name, array, _dimensions(name))
        group.attrs.update(attributes)  # last: they mark the model as complete

    replace_tree(locate(path), overwrite, write, lambda found: found.get("format") in (FORMAT, _BEGUN), _FILES)


def _centered(means: Any, offset: Any, dtype: Any) -> FloatArray:
    """Means relative to the offset, as they were before the offset was added."""
    centered: FloatArray = (means - offset).astype(dtype)
    return centered


def _plain(provenance: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON has them, within the bounds of what is read again."""
    try:
        text = json.dumps(provenance)
        values = as_json(text, "provenance")
    except RecursionError as error:
        raise ValueError("provenance: nested too deeply, expected plain values") from error
    if len(text) > MOST_METADATA // 4:
        raise ValueError(f"provenance: {len(text)} characters as JSON, expected at most {MOST_METADATA // 4}")
    return values


def load_mixture(path: str | os.PathLike[str]) -> tuple[Mixture, dict[str, Any]]:
    """Read a mixture that `save_mixture` wrote, and the values of its type.

    Raises
    ------
    FileNotFoundError
        When nothing is stored at `path`.
    ValueError
        When it is something else, incomplete, damaged, or of a format newer than this version of the package knows;
        when a number of it cannot be computed with; when `path` is the URL of another service.
    OSError
        When a file or an object store cannot be read.
    """
    return read_whole(locate(path), _read_mixture)


def _read_mixture(path: str) -> tuple[Mixture, dict[str, Any]]:
    place = place_at(path)
    attributes = read_group(place, "")
    if attributes is None:
        raise FileNotFoundError(f"{path}: no model is stored there")
    format_version = _check_format(path, attributes)
    if format_version > 2:
        attributes = unsealed({n: v for n, v in attributes.items() if n in _SEALED}, f"{path}/{METADATA}", True)
    arrays = _arrays(place, attributes, format_version)
    shape, version = attributes.get("feature_shape"), attributes.get("version")
    if not isinstance(shape, list) or not shape or not all(type(n) is int and n > 0 for n in shape):
        raise ValueError(f"{path}: damaged: feature_shape is {shape}, expected a list of positive whole numbers")
    if type(version) is not int or version < 0:
        raise ValueError(f"{path}: damaged: version is {version!r}, expected a whole number of at least 0")
    model_type = attributes.get("type", {})
    if not isinstance(model_type, dict):
        raise ValueError(f"{path}: damaged: type is {model_type!r}, expected an object")
    try:
        mixture = Mixture(**arrays, feature_shape=tuple(shape), version=version).checked()
    except ValueError as error:
        raise ValueError(f"{path}: damaged: {error}") from error
    for name in _SIZES:
        if attributes.get(name, getattr(mixture, name)) != getattr(mixture, name):
            raise ValueError(
                f"{path}: damaged: {name} is {attributes[name]!r}, and the arrays have {getattr(mixture, name)}"
            )
    return mixture, model_type


def _check_format(path: str, attributes: dict[str, Any]) -> int:
    """The number of a format that this version reads."""
    if attributes.get("format") == _BEGUN:
        raise ValueError(f"{path}: the model is incomplete: saving it was interrupted, or is still going on")
    if attributes.get("format") != FORMAT:
        raise ValueError(f"{path}: format is {attributes.get('format')!r}, expected {FORMAT!r}")
    format_version = attributes.get("format_version")
    if type(format_version) is not int or not 1 <= format_version <= FORMAT_VERSION:
        raise ValueError(
            f"{path}: written in format {format_version}, this version reads up to "
            f"{FORMAT_VERSION}; update vmfa_dask to load it"
        )
    return format_version


def _arrays(place: Place, attributes: dict[str, Any], format_version: int) -> dict[str, Any]:
    """Arrays by name, as they are in memory, once their shapes and dtypes go together."""
    described = attributes.get("arrays") if format_version > 2 else None
    arrays = {name: read_array(place, "", name) for name in _DIMENSIONS}
    if described is not None:
        own = _CENTERED in described
    else:
        own = format_version > 1 and bool(arrays["offset"].any()) and _is_there(place, _CENTERED)
    if own:
        arrays[_CENTERED] = read_array(place, "", _CENTERED)
    if described is not None and describe(arrays) != described:
        found = describe(arrays)
        name = next(name for name in {**found, **described} if found.get(name) != described.get(name))
        raise ValueError(
            f"{place.path}: the array {name!r} is damaged: found {found.get(name)}, its {METADATA} names "
            f"{described.get(name)}; restore it from a copy"
        )
    _check_shapes(place.path, arrays)
    if own:
        arrays["means"] = arrays.pop(_CENTERED)
    elif format_version > 1 and arrays["offset"].any():
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named when the numbers are checked
            arrays["means"] = _centered(arrays["means"], arrays["offset"], arrays["loadings"].dtype)
    return arrays


def _is_there(place: Place, name: str) -> bool:
    return place.fetch(f"{name}/{METADATA}", MOST_METADATA) is not None


def _check_shapes(path: str, arrays: dict[str, Any]) -> None:
    """Refuse arrays whose dimensions or dtypes are not those of one model."""
    sizes: dict[str, tuple[str, int]] = {}
    for name, array in arrays.items():
        dimensions = _dimensions(name)
        if array.ndim != len(dimensions):
            raise ValueError(
                f"{path}: the array {name!r} is damaged: shape {list(array.shape)}, expected ({', '.join(dimensions)})"
            )
        for dimension, size in zip(dimensions, array.shape, strict=True):
            first, known = sizes.setdefault(dimension, (name, size))
            if size != known or (size == 0 and dimension != "factor"):
                raise ValueError(
                    f"{path}: the array {name!r} is damaged: shape {list(array.shape)}, where {dimension} is {size}, "
                    f"expected {known if size != known else 'at least 1'} as in {first!r}"
                )
    dtype = arrays["loadings"].dtype
    for name in ("means", "noise_variances", _CENTERED):
        if name in arrays and arrays[name].dtype not in (dtype, np.float64 if name == "means" else dtype):
            raise ValueError(
                f"{path}: the array {name!r} is damaged: {arrays[name].dtype}, and the loadings are {dtype}; "
                "expected the same"
            )


def _dimensions(name: str) -> tuple[str, ...]:
    return _DIMENSIONS["means" if name == _CENTERED else name]
