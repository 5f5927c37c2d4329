"""The gate of rows: whatever form the data has, it passes here, for fits and for the functions of a model alike.

What is settled here: which array is meant and which of its axes counts samples, that it holds numbers and nothing
behind masks or packing, its dtype and byte order (see `tables.row_dtype`), and the shape of a row. Whether each number
is finite shows when the rows are read (`run.row_source.refuse_non_finite`). May import: numpy, zarr, store, tables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from vmfa_dask.store import forms
from vmfa_dask.store.dask_rows import plain_blocks
from vmfa_dask.store.frames import table_of_dask, table_of_pandas
from vmfa_dask.store.opening import refuse_objects
from vmfa_dask.store.packing import refuse_packed
from vmfa_dask.store.places import locate
from vmfa_dask.store.plain import plain_array
from vmfa_dask.tables import Origin

_NPY = b"\x93NUMPY"


@dataclass(frozen=True)
class Stored:
    """Rows in a Zarr store that `store.rows.ZarrRows` opens: path or URL, and the array's name in a group."""

    url: str
    name: str | None


@dataclass(frozen=True)
class InMemory:
    """Rows in an array (N, ...) of NumPy, or in a memory map."""

    values: NDArray[Any]
    origin: Origin


@dataclass(frozen=True)
class Lazy:
    """Rows in a Dask array (N, ...) of known sizes, whose chunks are plain numbers."""

    array: Any
    origin: Origin


def admit(label: str, data: Any, array: str | None = None, sample_dim: str | None = None) -> Stored | InMemory | Lazy:
    """Let data in that can be rows.

    Parameters
    ----------
    label : name of the argument, for messages
    data : path or URL of a Zarr store or path of a .npy file; array or group of zarr; DataArray, Dataset or DataTree of
        xarray; array or data frame of Dask; data frame of pandas; array of NumPy, what gives itself as one, or lists
    array : name of the array in a group, or of the variable in a Dataset
    sample_dim : dimension of an xarray variable that counts samples

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        Naming the argument, what was found and what is expected.
    """
    origin = Origin(label)
    if forms.is_of_xarray(data):
        data, origin = forms.samples_first(label, data, array, sample_dim)
        return _admit_array(data, origin)
    if sample_dim is not None:
        raise ValueError(f"sample_dim={sample_dim!r}: expected only with {label} of xarray; rows are the first axis")
    if isinstance(data, zarr.Array | zarr.Group) and not forms.is_in_memory(data):
        data, array = forms.place_of(label, data, array)
    if isinstance(data, str | os.PathLike):
        path = locate(data)
        return _mapped(path, array) if is_numpy_file(path) else Stored(path, array)
    if array is not None:
        raise ValueError(f"array={array!r}: {label} is an array itself; array=... chooses one inside a group")
    if isinstance(data, zarr.Array):
        refuse_objects(label, data)
        refuse_packed(label, data, "")
        forms.check_first_dimension(label, data)
        data = np.asarray(data[...])
    return _admit_array(data, origin)


def _admit_array(data: Any, origin: Origin) -> InMemory | Lazy:
    if forms.is_dask_frame(data):
        return Lazy(table_of_dask(origin.label, data), origin)
    if forms.is_dask_array(data):
        return Lazy(plain_blocks(origin.label, data), origin)
    if forms.is_pandas_frame(data):
        return InMemory(table_of_pandas(origin.label, data), origin)
    return InMemory(plain_array(origin.label, data), origin)


def is_numpy_file(path: str) -> bool:
    """Whether a path is that of a file which NumPy has saved, or is called like one."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_NPY)) == _NPY or path.lower().endswith((".npy", ".npz"))


def _mapped(path: str, array: str | None) -> InMemory:
    """A .npy file as a memory map; nothing of it is executed."""
    if array is not None:
        raise ValueError(f"array={array!r}: {path} is an array itself; array=... chooses one inside a group")
    archive = f"{path}: an archive of arrays of NumPy; pass one of them: numpy.load(path)[name]"
    if path.lower().endswith(".npz"):
        raise ValueError(archive)
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # the header is text in the syntax of Python, and may be anything
        said = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ValueError(f"{path}: not readable as a .npy file: {said}; copy or save it again") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise ValueError(archive)
    _check_length(path, values)
    return InMemory(plain_array(path, values), Origin(path))


def _check_length(path: str, values: NDArray[Any]) -> None:
    """Refuse a .npy file with more in it than its header says: bytes put in between would shift all rows."""
    found = os.path.getsize(path)
    expected = values.offset + values.nbytes if isinstance(values, np.memmap) else found
    if found != expected:
        raise ValueError(
            f"{path}: the file has {found} bytes, and its header says {expected}; copy or save it again, one array "
            "in a file"
        )


def check_layout(label: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse rows of another shape than that of a model: equally many features in another layout are other features.

    Parameters
    ----------
    label : what the rows are called, for messages
    found, expected : shape of a row, and that of the model

    Raises
    ------
    ValueError
        With both shapes.
    """
    width, n_features = int(np.prod(found)), int(np.prod(expected))
    if found in ((n_features,), expected):
        return
    said = f"found shape {_with_rows(found)}, expected {shapes_of_rows(expected)}"
    if width != n_features:
        raise ValueError(f"{label}: rows have {width} features, the model has {n_features}: {said}")
    raise ValueError(f"{label}: {said}; bring the axes into the order of the rows on which the model was trained")


def shapes_of_rows(feature_shape: tuple[int, ...]) -> str:
    """The shapes that rows may have for a model, for messages: flat, or as they were trained on."""
    return " or ".join(dict.fromkeys(map(_with_rows, ((int(np.prod(feature_shape)),), feature_shape))))


def _with_rows(feature_shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, feature_shape))})"
