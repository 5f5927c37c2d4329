"""Arrays in the forms in which users hold them: of zarr, xarray, Dask, pandas. May import: zarr, store, tables.

None of them is imported here but zarr: an object tells what it is by the modules of its class and of those it is made
from.
"""

from __future__ import annotations

import os
from typing import Any

import zarr
from zarr.storage import LocalStore, MemoryStore, ZipStore

from vmfa_dask.store.packing import remedy_for
from vmfa_dask.tables import Origin

# Names of a dimension that leave no doubt about what it counts. Rows do: pictures have them too.
_SAMPLE_NAMES = ("sample", "samples", "n", "obs", "observation", "observations", "image", "images")


def _comes_from(data: Any, package: str) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(data).__mro__)


def is_of_xarray(data: Any) -> bool:
    """Whether it is a DataArray, a Dataset or a tree of them."""
    return _comes_from(data, "xarray")


def is_dask_array(data: Any) -> bool:
    """Whether it is an array of Dask."""
    return _comes_from(data, "dask.array") and hasattr(data, "map_blocks")


def is_dask_frame(data: Any) -> bool:
    """Whether it is a data frame of Dask, or a column of one."""
    return _comes_from(data, "dask.dataframe") and hasattr(data, "to_dask_array")


def is_pandas_frame(data: Any) -> bool:
    """Whether it is a data frame of pandas."""
    return _comes_from(data, "pandas") and hasattr(data, "iloc") and hasattr(data, "columns")


def counts_samples(dimension: str) -> bool:
    """Whether the name of a dimension leaves no doubt that it counts samples."""
    return dimension.lower() in _SAMPLE_NAMES


def place_of(label: str, node: zarr.Array[Any] | zarr.Group, array: str | None) -> tuple[str, str | None]:
    """Path of the store of an array or group in a folder or a zip archive, and the array's name in it.

    Raises
    ------
    TypeError
        For other stores, naming the argument `label`.
    """
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


def is_in_memory(node: zarr.Array[Any] | zarr.Group) -> bool:
    """Whether it is an array of zarr whose chunks are in memory."""
    return isinstance(node, zarr.Array) and isinstance(node.store, MemoryStore)


def check_first_dimension(label: str, array: zarr.Array[Any]) -> None:
    """Refuse a stored array whose names say that another dimension than the first one counts samples.

    Raises
    ------
    ValueError
        With the names.
    """
    named = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
    names = [str(name) for name in named] if isinstance(named, list | tuple) else []
    if names and not counts_samples(names[0]) and any(map(counts_samples, names[1:])):
        raise ValueError(
            f"{label}: rows are the first dimension, and the dimensions are called {', '.join(map(repr, names))}; open "
            "it with xarray and name the one that counts samples by sample_dim=..."
        )


def _variables(data: Any) -> dict[str, Any]:
    """Variables of a Dataset by name, of a tree by path."""
    if not hasattr(data, "subtree"):
        return {str(name): data[name] for name in data.data_vars}
    found: dict[str, Any] = {}
    for node in data.subtree:
        folder = node.path.strip("/")
        found |= {f"{folder}/{name}".lstrip("/"): node.dataset[name] for name in node.data_vars}
    return found


def samples_first(label: str, data: Any, array: str | None, sample_dim: str | None) -> tuple[Any, Origin]:
    """Array of an xarray variable, the dimension that counts samples in front, and what to call it in messages.

    Parameters
    ----------
    label : name of the argument, for messages
    data : DataArray, Dataset or DataTree
    array : name of the variable of a Dataset, path of that of a tree
    sample_dim : the dimension that counts samples; needed unless the first one says so by its name

    Raises
    ------
    ValueError
        Where variable or dimension are not clear; what is there is listed.
    """
    if hasattr(data, "data_vars"):
        variables = _variables(data)
        names = list(variables)
        name = names[0] if array is None and len(names) == 1 else (array or "").strip("/")
        if name not in names:
            raise ValueError(
                f"{label}: a {type(data).__name__} with the variables {', '.join(map(repr, names)) or 'none'}; choose "
                f"one by the argument array=..., found array={array!r}"
            )
        data = variables[name]
    elif array is not None:
        raise ValueError(f"array={array!r}: {label} is a DataArray itself; array=... chooses a variable of a Dataset")
    dims = [str(dim) for dim in data.dims]
    if sample_dim is None and dims and counts_samples(dims[0]):
        sample_dim = dims[0]
    if sample_dim not in dims:
        raise ValueError(
            f"{label}: a DataArray with the dimensions {', '.join(map(repr, dims)) or 'none'}; name the one that "
            f"counts samples by sample_dim=..., found sample_dim={sample_dim!r} (only a first dimension called "
            f"{', '.join(_SAMPLE_NAMES[:-1])} or {_SAMPLE_NAMES[-1]} is taken without asking)"
        )
    where = label if data.name is None else f"{label}: variable {str(data.name)!r}"
    remedy = remedy_for(data.encoding)
    return data.transpose(sample_dim, ...).data, Origin(where, remedy) if remedy else Origin(where)
