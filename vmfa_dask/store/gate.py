"""The gate of data: every form of rows passes here, for fits and for the functions of a model alike.

Settled here are which array is meant and which of its axes counts samples, that it holds numbers and nothing behind
masks or packing, its dtype and byte order (`tables.row_dtype`), and the shape of a row. Whether each number is finite
shows when the rows are read (`run.row_source.refuse_non_finite`).

Of the libraries whose objects come here only zarr is imported: the module of an object's class says where it is from.
May import: tables, store, numpy, zarr.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore, MemoryStore, ZipStore

from vmfa_dask.store.conventions import check_first_dimension, refuse_packed, samples_first
from vmfa_dask.store.frames import table_of_dask, table_of_pandas
from vmfa_dask.store.opening import refuse_objects
from vmfa_dask.store.places import locate
from vmfa_dask.store.plain import is_numpy_file, mapped_file, plain_array, plain_chunks
from vmfa_dask.tables import Origin, check_table


@dataclass(frozen=True)
class Stored:
    """Rows in a Zarr store, for `store.rows.ZarrRows` to open.

    Parameters
    ----------
    url : str
        Path or URL of the store.
    name : str or None
        Path of the array in a group; None where the store is an array, or a group with a single one.
    """

    url: str
    name: str | None


@dataclass(frozen=True)
class InMemory:
    """Rows in memory, or in a memory map.

    Parameters
    ----------
    values : ndarray of shape (N, ...)
        Any integer or float dtype of at most 64 bits, in any byte order.
    origin : Origin
        What the rows are called in messages.
    """

    values: NDArray[Any]
    origin: Origin


@dataclass(frozen=True)
class Lazy:
    """Rows that Dask computes.

    Parameters
    ----------
    array : dask.array.Array of shape (N, ...)
        Of known sizes; its chunks are plain numbers in native byte order.
    origin : Origin
        What the rows are called in messages.
    """

    array: Any
    origin: Origin


def admit(label: str, data: Any, array: str | None = None, sample_dim: str | None = None) -> Stored | InMemory | Lazy:
    """Admit data that can be rows.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    data : object
        Path or URL of a Zarr store, or path of a .npy file; array or group of zarr; DataArray, Dataset or DataTree of
        xarray; array or data frame of Dask; data frame of pandas; array of NumPy, anything with its array interface,
        or nested lists. The partitions of a Dask frame are counted here.
    array : str, optional
        Path of the array in a group, or name of the variable in a Dataset.
    sample_dim : str, optional
        Dimension of an xarray variable that counts samples.

    Returns
    -------
    Stored, InMemory or Lazy
        Where the rows are. What is stored has not been opened yet.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        Naming the argument, what was found and what is expected.
    """
    if is_labelled(data):
        return _admit_array(*samples_first(label, data, array, sample_dim))
    if sample_dim is not None:
        raise ValueError(f"sample_dim={sample_dim!r}: expected only with {label} of xarray; rows are the first axis")
    if isinstance(data, zarr.Array | zarr.Group) and not _is_in_memory(data):
        data, array = _location_of(label, data, array)
    if isinstance(data, str | os.PathLike):
        path = locate(data)
        if not is_numpy_file(path):
            return Stored(path, array)
        _refuse_name(path, array)
        return _admit_array(mapped_file(path), Origin(path))
    _refuse_name(label, array)
    if isinstance(data, zarr.Array):
        refuse_objects(label, data)
        refuse_packed(label, data, "")
        check_first_dimension(label, data)
        data = np.asarray(data[...])
    return _admit_array(data, Origin(label))


def _admit_array(data: Any, origin: Origin) -> InMemory | Lazy:
    rows: InMemory | Lazy
    if is_dask_frame(data):
        rows = Lazy(table_of_dask(origin.label, data), origin)
    elif _comes_from(data, "dask.array") and hasattr(data, "map_blocks"):
        rows = Lazy(plain_chunks(origin.label, data), origin)
    elif _comes_from(data, "pandas") and hasattr(data, "iloc") and hasattr(data, "columns"):
        rows = InMemory(table_of_pandas(origin.label, data), origin)
    else:
        rows = InMemory(plain_array(origin.label, data), origin)
    table = rows.array if isinstance(rows, Lazy) else rows.values
    check_table(origin.label, table.shape, table.dtype)
    return rows


def _comes_from(data: Any, package: str) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(data).__mro__)


def is_labelled(data: Any) -> bool:
    """Whether data is an object of xarray.

    Parameters
    ----------
    data : object
        Of any kind.

    Returns
    -------
    bool
        Known without importing xarray.
    """
    return _comes_from(data, "xarray")


def is_dask_frame(data: Any) -> bool:
    """Whether data is a data frame of Dask, or a column of one.

    Parameters
    ----------
    data : object
        Of any kind.

    Returns
    -------
    bool
        Known without importing Dask.
    """
    return _comes_from(data, "dask.dataframe") and hasattr(data, "to_dask_array")


def is_in_a_store(data: Any) -> bool:
    """Whether any process can open data by its path or URL.

    Parameters
    ----------
    data : object
        Of any kind; nothing is opened.

    Returns
    -------
    bool
        True for paths and URLs of Zarr stores, and for arrays and groups of zarr in a folder or zip archive.
    """
    if isinstance(data, zarr.Array | zarr.Group):
        return isinstance(data.store, LocalStore | ZipStore)
    return isinstance(data, str | os.PathLike) and not is_numpy_file(locate(data))


def _is_in_memory(node: zarr.Array[Any] | zarr.Group) -> bool:
    return isinstance(node, zarr.Array) and isinstance(node.store, MemoryStore)


def _location_of(label: str, node: zarr.Array[Any] | zarr.Group, array: str | None) -> tuple[str, str | None]:
    """Path of a folder or zip archive that holds an array or group of zarr, and the array's name in it."""
    if isinstance(node.store, LocalStore):
        return os.path.join(node.store.root, node.path), array
    if isinstance(node.store, ZipStore):
        if array is not None and isinstance(node, zarr.Array):
            raise ValueError(f"{label} is an array itself; array={array!r} chooses one inside a group")
        return str(node.store.path), "/".join(filter(None, (node.path, array))) or None
    raise TypeError(
        f"{label}: a {type(node).__name__} of zarr in {node.store}, which other processes cannot open; "
        "pass its path or URL"
    )


def _refuse_name(label: str, array: str | None) -> None:
    if array is not None:
        raise ValueError(f"array={array!r}: {label} is an array itself; array=... chooses one inside a group")
