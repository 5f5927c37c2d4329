"""Arrays of NumPy and Dask, lists and .npy files as plain numbers: nothing behind a mask, nothing that is no number.

Dask is not imported: methods of its array are enough. May import: numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXPECTED = (
    "expected the path or URL of a Zarr store, an array of zarr, xarray, dask or NumPy, the path of a .npy file, a "
    "data frame of pandas or dask, a group of zarr, a data set of xarray, or lists of numbers"
)

_NPY = b"\x93NUMPY"
_REMEDY = "leave their rows out, or fill them (filled(value)) with numbers that stand for what was measured"


def plain_array(label: str, data: Any) -> NDArray[Any]:
    """The numbers of an array, of anything with NumPy's array interface, or of nested lists.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    data : array_like
        Of any shape and dtype.

    Returns
    -------
    ndarray
        The numbers; no copy where `data` is an array of NumPy. Shape and dtype are not checked.

    Raises
    ------
    TypeError
        When it is nothing of the kind.
    ValueError
        When values are masked, or NumPy can make no array of it.
    """
    kind = f"{type(data).__module__}.{type(data).__name__}"
    listed = isinstance(data, list | tuple)
    if not listed and not hasattr(data, "__array__") and not hasattr(data, "__array_interface__"):
        raise TypeError(f"{label}: found {kind}, {EXPECTED}")
    if listed:
        n_masked = sum(_masked_items(data))
        if n_masked:
            raise ValueError(f"{label}: {n_masked} values in these lists are masked; {_REMEDY}")
    _refuse_masked(label, data)
    try:
        return np.asarray(data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{label}: {kind} cannot be taken as an array of numbers: {error}") from error


def is_numpy_file(path: str) -> bool:
    """Whether a path is that of a file written by `numpy.save`, or has the name of one.

    Parameters
    ----------
    path : str
        Of anything, or of nothing.

    Returns
    -------
    bool
        True for archives of arrays (.npz) too.
    """
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_NPY)) == _NPY or path.lower().endswith((".npy", ".npz"))


def mapped_file(path: str) -> NDArray[Any]:
    """Map a .npy file into memory; nothing in it is executed.

    Parameters
    ----------
    path : str
        Of a file that `is_numpy_file` has recognised.

    Returns
    -------
    ndarray
        A memory map, read-only, of any shape and dtype.

    Raises
    ------
    ValueError
        When the file is an archive, cannot be read, or is longer or shorter than its header says.
    """
    archive = f"{path}: an archive of arrays of NumPy; pass one of them: numpy.load(path)[name]"
    if path.lower().endswith(".npz"):
        raise ValueError(archive)
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # the header is text in the syntax of Python, and may be anything
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ValueError(f"{path}: not readable as a .npy file: {reason}; copy or save it again") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise ValueError(archive)
    _check_length(path, values)
    return plain_array(path, values)


def _check_length(path: str, values: NDArray[Any]) -> None:
    """Refuse a file with more in it than its header says: bytes inserted in between would shift all rows."""
    n_bytes = os.path.getsize(path)
    expected = values.offset + values.nbytes if isinstance(values, np.memmap) else n_bytes
    if n_bytes != expected:
        raise ValueError(
            f"{path}: the file has {n_bytes} bytes, and its header says {expected}; copy or save it again, one array "
            "in a file"
        )


def plain_chunks(label: str, array: Any) -> Any:
    """The Dask array whose chunks are plain numbers of its dtype, in native byte order.

    What chunks hold shows when they are computed: masked values are refused there.

    Parameters
    ----------
    label : str
        Name of the argument, for messages.
    array : dask.array.Array
        Of any shape and dtype.

    Returns
    -------
    dask.array.Array
        Of the same shape and chunks. Shape and dtype are not checked.

    Raises
    ------
    ValueError
        When the sizes of chunks are unknown.
    """
    if any(np.isnan(size) for size in array.shape):
        raise ValueError(
            f"{label}: a dask array whose chunks have unknown sizes; call its compute_chunk_sizes() before"
        )
    dtype = np.dtype(array.dtype).newbyteorder("=")
    return array.map_blocks(_plain_chunk, label, dtype.str, dtype=dtype, meta=np.empty((0,) * array.ndim, dtype))


def _plain_chunk(chunk: Any, label: str, dtype: str, block_info: Any = None) -> NDArray[Any]:
    """One chunk, computed."""
    start, stop = block_info[0]["array-location"][0] if block_info else (0, len(chunk))
    _refuse_masked(f"{label}, rows {start}:{stop}", chunk)
    try:
        return np.asarray(chunk).astype(dtype, casting="same_kind", copy=False)
    except TypeError as error:
        raise ValueError(f"{label}, rows {start}:{stop}: chunks of dtype {dtype} were announced: {error}") from error


def _refuse_masked(label: str, data: Any) -> None:
    """Refuse masked values; an array whose mask hides nothing is its data."""
    mask = _mask_of(data)
    if mask is None or not mask.any():
        return
    position = tuple(int(n) for n in np.unravel_index(int(np.argmax(mask)), mask.shape))
    count = f"{np.count_nonzero(mask)} of {mask.size} values are masked, the first one at {position}"
    raise ValueError(f"{label}: {count}; {_REMEDY}")


def _mask_of(data: Any) -> NDArray[np.bool_] | None:
    """Where an array is masked; classes of other packages carry their mask under the same name as NumPy's own."""
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.getmaskarray(data)
    mask = getattr(data, "mask", None) if isinstance(data, np.ndarray) else None
    return mask if isinstance(mask, np.ndarray) and mask.dtype == bool else None


def _masked_items(items: list[Any] | tuple[Any, ...]) -> Iterator[int]:
    """Number of masked values in each item of nested lists: NumPy would take what is behind the masks."""
    for item in items:
        if isinstance(item, list | tuple):
            yield from _masked_items(item)
        elif isinstance(item, np.ndarray):
            mask = _mask_of(item)
            yield 0 if mask is None else int(np.count_nonzero(mask))
