"""What is stored at a path: a run, a model, or arrays. May import: store."""

from __future__ import annotations

import os
from typing import Any, Literal

from vmfa_dask.store.arrays import read_group
from vmfa_dask.store.models import FORMAT
from vmfa_dask.store.places import place_at
from vmfa_dask.store.plain import is_numpy_file
from vmfa_dask.store.run_files import read_identity

Kind = Literal["run", "model", "file", "arrays"]


def kind_of(path: str) -> Kind:
    """Tell what is stored at a path, without reading numbers.

    Parameters
    ----------
    path : str
        As returned by `places.locate`.

    Returns
    -------
    {"run", "model", "file", "arrays"}
        A run, a saved model, a ``.npy`` file, or anything else that may be a Zarr array or group.
    """
    if is_numpy_file(path):
        return "file"
    if "://" in path or os.path.isdir(path):
        place = place_at(path)
        if read_identity(place) is not None:
            return "run"
        try:
            attributes = read_group(place, "")
        except ValueError:  # an array, or a group as others write it
            attributes = None
        if attributes is not None and str(attributes.get("format", "")).startswith(FORMAT):
            return "model"
    return "arrays"


def model_attributes(path: str) -> dict[str, Any]:
    """Read what a saved model says of itself beside its numbers.

    Parameters
    ----------
    path : str
        Folder of the group, or URL of an object store, where `kind_of` has found a model.

    Returns
    -------
    dict
        Name and number of the format, sizes, type, and the caller's provenance. Loading the model verifies them.

    Raises
    ------
    ValueError
        If the metadata are damaged.
    OSError
        If they cannot be read.
    """
    return read_group(place_at(path), "") or {}


def bytes_on_disk(path: str) -> int | None:
    """Size of the files at a path.

    Parameters
    ----------
    path : str
        Path or URL.

    Returns
    -------
    int or None
        Bytes; None of an object store.
    """
    if "://" in path:
        return None
    if not os.path.isdir(path):
        return os.path.getsize(path)
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in files)
