"""Saved models: Zarr groups that xarray opens, with arrays of named dimensions and everything else in attributes.

Only arrays and JSON are written and read; loading runs no code. May import: values, zarr, store.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import numpy as np
import zarr

from vmfa_dask.store.arrays import METADATA, chunk_length, describe, read_array, read_group, write_array
from vmfa_dask.store.places import Place, locate, place_at
from vmfa_dask.store.replacing import read_consistently, replace_tree
from vmfa_dask.store.replacing_objects import GROUP_NAME
from vmfa_dask.store.strict import MOST_METADATA, as_json, sealed, unsealed
from vmfa_dask.store.trees import Tree
from vmfa_dask.values import FloatArray, Mixture

# Format 1 had means relative to the offset and no type; 1 and 2 had neither sizes nor a checksum of the model.
FORMAT, FORMAT_VERSION = "vmfa_dask.mixture", 3
# Of models that have replaced another one in an object store: their arrays are in a group that an attribute names.
GROUP_VERSION = 4
# Of models with arrays of several chunks, in a group below or not.
CHUNKED_VERSION = 5
# Size of a chunk: what is written, or read and checked, at once.
_CHUNK_BYTES = 128 * 2**20
_INCOMPLETE = f"{FORMAT}.incomplete"

_DIMENSIONS = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "loadings": ("component", "factor", "feature"),
    "noise_variances": ("component", "feature"),
    "offset": ("feature",),
}
# Means relative to the offset; stored where `means` does not give them back to the last bit.
_CENTERED = "centered_means"
_SIZES = ("n_components", "n_features", "n_factors")
# Attributes that the checksum of a model covers; other programs may add their own.
_SEALED = (
    "format", "format_version", "version", "feature_shape", *_SIZES, "type", "provenance", "arrays", "group",
    "checksum",
)  # fmt: skip
_ARRAYS = "|".join([*_DIMENSIONS, _CENTERED])
_FILES = re.compile(rf"(?:{GROUP_NAME}/)?(?:zarr\.json|(?:{_ARRAYS})/(?:zarr\.json|c(?:/\d+)*))")


def save_mixture(
    mixture: Mixture,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    provenance: dict[str, Any] | None = None,
    model_type: dict[str, Any] | None = None,
) -> None:
    """Save a mixture as a Zarr group.

    The model appears complete or not at all, and until then an old model stays. In an object store, the arrays of a
    model that replaces another one are in a group below `path`, whose name is the attribute "group".

    Parameters
    ----------
    mixture : Mixture
        The mixture; its means are stored in the units of the data.
    path : path-like
        Folder of the group, or URL of an object store.
    overwrite : bool
        Replace a model that exists.
    provenance : dict or None
        JSON values that say where the model comes from.
    model_type : dict or None
        JSON values that describe the type of the model.

    Raises
    ------
    FileExistsError
        If something exists at `path`, and `overwrite` is not set or it is not a model.
    ValueError
        If `path` is a URL of another service, or `provenance` is too long or nested too deeply to be read again.
    OSError
        If the model cannot be written; the message names the path.
    """
    arrays: dict[str, Any] = {name: getattr(mixture, name) for name in _DIMENSIONS}
    if mixture.offset.any():
        arrays["means"] = mixture.means.astype(np.float64) + mixture.offset
        if not np.array_equal(_centered(arrays["means"], mixture.offset, mixture.loadings.dtype), mixture.means):
            arrays[_CENTERED] = mixture.means

    def write_arrays(group: zarr.Group) -> None:
        for name, array in arrays.items():
            write_array(group, name, array, _dimensions(name), _CHUNK_BYTES)

    is_cut = any(chunk_length(array, _CHUNK_BYTES) < len(array) for array in arrays.values())
    values = {
        "format": FORMAT,
        "format_version": CHUNKED_VERSION if is_cut else FORMAT_VERSION,
        "version": mixture.version,
        "feature_shape": list(mixture.feature_shape),
        **{name: getattr(mixture, name) for name in _SIZES},
        "type": model_type or {},
        "provenance": _plain(provenance or {}),
        "arrays": describe(arrays),
    }

    def attributes(group: str | None) -> dict[str, Any]:
        if group is None:
            return sealed(values)
        return sealed({**values, "format_version": CHUNKED_VERSION if is_cut else GROUP_VERSION, "group": group})

    def is_marked(attributes: Any) -> bool:
        return attributes.get("format") in (FORMAT, _INCOMPLETE)

    tree = Tree(write_arrays, attributes, {"format": _INCOMPLETE}, is_marked, _FILES)
    replace_tree(locate(path), overwrite, tree)


def _centered(means: Any, offset: Any, dtype: Any) -> FloatArray:
    """Means relative to the offset, computed from those in the units of the data."""
    centered: FloatArray = (means - offset).astype(dtype)
    return centered


def _plain(provenance: dict[str, Any]) -> dict[str, Any]:
    """Provenance as JSON reads it back, once it is known to be within the bounds that loading sets."""
    try:
        text = json.dumps(provenance)
        values = as_json(text, "provenance")
    except RecursionError as error:
        raise ValueError("provenance: nested too deeply, expected plain values") from error
    if len(text) > MOST_METADATA // 4:
        raise ValueError(f"provenance: {len(text)} characters as JSON, expected at most {MOST_METADATA // 4}")
    return values


def load_mixture(path: str | os.PathLike[str]) -> tuple[Mixture, dict[str, Any]]:
    """Load a mixture that `save_mixture` wrote.

    Parameters
    ----------
    path : path-like
        Folder of the group, or URL of an object store.

    Returns
    -------
    mixture : Mixture
        The mixture.
    model_type : dict
        JSON values that describe its type; empty for format 1.

    Raises
    ------
    FileNotFoundError
        If nothing is stored at `path`.
    ValueError
        If it is not a model, incomplete, damaged, or of a newer format than this version knows; if its numbers do not
        make a mixture; if `path` is a URL of another service.
    OSError
        If a file or an object store cannot be read.
    """
    return read_consistently(locate(path), _read_mixture)


def _read_mixture(path: str) -> tuple[Mixture, dict[str, Any]]:
    place = place_at(path)
    attributes = read_group(place, "")
    if attributes is None:
        raise FileNotFoundError(f"{path}: no model is stored there")
    format_version = _check_format(path, attributes)
    if format_version > 2:
        attributes = unsealed({n: v for n, v in attributes.items() if n in _SEALED}, f"{path}/{METADATA}", True)
    arrays = _read_arrays(place, _group_of_arrays(path, attributes, format_version), attributes, format_version)
    shape, version, model_type = _check_attributes(path, attributes)
    try:
        mixture = Mixture(**arrays, feature_shape=shape, version=version).checked()
    except ValueError as error:
        raise ValueError(f"{path}: damaged: {error}") from error
    for name in _SIZES:
        if attributes.get(name, getattr(mixture, name)) != getattr(mixture, name):
            raise ValueError(
                f"{path}: damaged: {name} is {attributes[name]!r}, and the arrays have {getattr(mixture, name)}"
            )
    return mixture, model_type


def _check_attributes(path: str, attributes: dict[str, Any]) -> tuple[tuple[int, ...], int, dict[str, Any]]:
    """Shape of a row, version of the parameters and type of the model, as attributes hold them."""
    shape, version = attributes.get("feature_shape"), attributes.get("version")
    if not isinstance(shape, list) or not shape or not all(type(n) is int and n > 0 for n in shape):
        raise ValueError(f"{path}: damaged: feature_shape is {shape}, expected a list of positive whole numbers")
    if type(version) is not int or version < 0:
        raise ValueError(f"{path}: damaged: version is {version!r}, expected a whole number of at least 0")
    model_type = attributes.get("type", {})
    if not isinstance(model_type, dict):
        raise ValueError(f"{path}: damaged: type is {model_type!r}, expected an object")
    return tuple(shape), version, model_type


def _check_format(path: str, attributes: dict[str, Any]) -> int:
    """The number of the format, which must be one that this version reads."""
    if attributes.get("format") == _INCOMPLETE:
        raise ValueError(f"{path}: the model is incomplete: saving it was interrupted, or is still in progress")
    if attributes.get("format") != FORMAT:
        raise ValueError(f"{path}: format is {attributes.get('format')!r}, expected {FORMAT!r}")
    format_version = attributes.get("format_version")
    if type(format_version) is not int or not 1 <= format_version <= CHUNKED_VERSION:
        raise ValueError(
            f"{path}: written in format {format_version}, this version reads up to "
            f"{CHUNKED_VERSION}; update vmfa_dask to load it"
        )
    return format_version


def _group_of_arrays(path: str, attributes: dict[str, Any], format_version: int) -> str:
    """The name of the group that holds the arrays; empty for the model's own."""
    if format_version < GROUP_VERSION:
        return ""
    group = attributes.get("group")
    if format_version == CHUNKED_VERSION and group is None:
        return ""
    if not isinstance(group, str) or not re.fullmatch(GROUP_NAME, group):
        raise ValueError(f"{path}: damaged: group is {group!r}, expected the name of a group of arrays")
    return group


def _read_arrays(place: Place, group: str, attributes: dict[str, Any], format_version: int) -> dict[str, Any]:
    """Arrays by name, with means relative to the offset as in memory, once shapes and dtypes are consistent."""
    descriptions = attributes.get("arrays") if format_version > 2 else None
    arrays = {name: read_array(place, group, name) for name in _DIMENSIONS}
    if descriptions is not None:
        has_centered = _CENTERED in descriptions
    else:
        has_centered = format_version > 1 and bool(arrays["offset"].any()) and _exists(place, _CENTERED)
    if has_centered:
        arrays[_CENTERED] = read_array(place, group, _CENTERED)
    if descriptions is not None:
        _check_descriptions(place.path, arrays, descriptions)
    _check_shapes(place.path, arrays)
    if has_centered:
        arrays["means"] = arrays.pop(_CENTERED)
    elif format_version > 1 and arrays["offset"].any():
        # Numbers that are not finite are reported later, by name.
        with np.errstate(over="ignore", invalid="ignore"):
            arrays["means"] = _centered(arrays["means"], arrays["offset"], arrays["loadings"].dtype)
    return arrays


def _exists(place: Place, name: str) -> bool:
    """Whether an array is stored."""
    return place.fetch(f"{name}/{METADATA}", MOST_METADATA) is not None


def _check_descriptions(path: str, arrays: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuse arrays that differ from their descriptions in the attributes: one may be from another model."""
    actual = describe(arrays)
    if actual != expected:
        name = next(name for name in {**actual, **expected} if actual.get(name) != expected.get(name))
        raise ValueError(
            f"{path}: the array {name!r} is damaged: found {actual.get(name)}, its {METADATA} names "
            f"{expected.get(name)}; restore it from a copy"
        )


def _check_shapes(path: str, arrays: dict[str, Any]) -> None:
    """Refuse arrays whose dimensions or dtypes do not match each other."""
    sizes: dict[str, tuple[str, int]] = {}  # of each dimension: the first array that has it, and its length there
    for name, array in arrays.items():
        dimensions = _dimensions(name)
        if array.ndim != len(dimensions):
            raise ValueError(
                f"{path}: the array {name!r} is damaged: shape {list(array.shape)}, expected ({', '.join(dimensions)})"
            )
        for dimension, size in zip(dimensions, array.shape, strict=True):
            first, expected = sizes.setdefault(dimension, (name, size))
            if size != expected or (size == 0 and dimension != "factor"):
                raise ValueError(
                    f"{path}: the array {name!r} is damaged: shape {list(array.shape)}, where {dimension} is {size}, "
                    f"expected {expected if size != expected else 'at least 1'} as in {first!r}"
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
