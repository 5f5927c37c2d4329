"""Arrays in the forms in which users hold them: of zarr, of xarray, of Dask. May import: numpy, zarr, values, store.

None of them is imported here but zarr: an object tells what it is by the module of its type.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore, MemoryStore

from vmfa_dask.store.units import Rows, WholeUnits
from vmfa_dask.values import check_table

# Names of a first dimension that leave no doubt about what it counts.
_SAMPLE_NAMES = ("sample", "samples", "row", "rows", "n", "obs", "observation", "observations", "image", "images")


def is_of_xarray(data: Any) -> bool:
    """Whether it is a DataArray or a Dataset."""
    return type(data).__module__.partition(".")[0] == "xarray"


def is_dask_array(data: Any) -> bool:
    """Whether it is an array of Dask."""
    return type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "to_zarr")


def place_of(label: str, node: zarr.Array[Any] | zarr.Group) -> Any:
    """Path of an array or group in a folder; the values of an array in memory.

    Raises
    ------
    TypeError
        For other stores, naming the argument `label`.
    """
    if isinstance(node.store, LocalStore):
        return os.path.join(node.store.root, node.path)
    if isinstance(node.store, MemoryStore) and isinstance(node, zarr.Array):
        return np.asarray(node[...])
    raise TypeError(
        f"{label}: a {type(node).__name__} of zarr in {node.store}, which other processes cannot open; "
        "pass its path or URL"
    )


def samples_first(label: str, data: Any, array: str | None, sample_dim: str | None) -> Any:
    """NumPy or Dask array of an xarray variable, the dimension that counts samples in front.

    Parameters
    ----------
    label : name of the argument, for messages
    data : DataArray or Dataset
    array : name of the variable of a Dataset
    sample_dim : the dimension that counts samples; needed unless the first one says so by its name

    Raises
    ------
    ValueError
        Where variable or dimension are not clear; what is there is listed.
    """
    if hasattr(data, "data_vars"):
        names = [str(name) for name in data.data_vars]
        name = names[0] if array is None and len(names) == 1 else array
        if name not in names:
            raise ValueError(
                f"{label}: a Dataset with the variables {', '.join(map(repr, names)) or 'none'}; choose one by the "
                f"argument array=..., found array={array!r}"
            )
        data = data[name]
    elif array is not None:
        raise ValueError(f"array={array!r}: {label} is a DataArray itself; array=... chooses a variable of a Dataset")
    dims = [str(dim) for dim in data.dims]
    if sample_dim is None and dims and dims[0].lower() in _SAMPLE_NAMES:
        sample_dim = dims[0]
    if sample_dim not in dims:
        raise ValueError(
            f"{label}: a DataArray with the dimensions {', '.join(map(repr, dims)) or 'none'}; name the one that "
            f"counts samples by sample_dim=..., found sample_dim={sample_dim!r}"
        )
    return data.transpose(sample_dim, ...).data


class DaskRows:
    """Rows of a Dask array, computed chunk by chunk where they are read; one chunk of rows is held.

    Parameters
    ----------
    array : (N, ...) any integer or float dtype
    """

    def __init__(self, array: Any) -> None:
        check_table("array", array.shape, array.dtype)
        self._array = array
        self.feature_shape = tuple(int(n) for n in array.shape[1:])
        self.n_rows, self.dtype = int(array.shape[0]), np.dtype(array.dtype)
        self.chunk_rows = self.decoded_rows = int(array.chunks[0][0])
        self.reads_parts, self.bytes_read = False, 0
        self._units = WholeUnits(self._computed, self.chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop`` as (n, D), read-only."""
        block = self._units.read(start, stop)
        block.flags.writeable = False
        return block

    def _computed(self, start: int, stop: int) -> Rows:
        return np.array(self._array[start:stop]).reshape(stop - start, -1)

    def describe(self, row: int) -> str:
        """The row's number."""
        return f"row {row}"
