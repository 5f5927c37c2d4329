"""Zarr arrays opened for reading: nothing is created, no code of a store runs, and errors are one line.

May import: zarr, store.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import zarr
from zarr.codecs import ShardingCodec
from zarr.storage import LocalStore, StorePath, ZipStore

from vmfa_dask.store.members import arrays_of, chosen_member
from vmfa_dask.store.metadata import BadMetadata, MetadataStore
from vmfa_dask.store.objects import is_object_store, zarr_target
from vmfa_dask.store.regular import irregular

Result = TypeVar("Result")

# What Zarr raises over metadata that it cannot make an array of. Errors of the store itself (OSError) pass unchanged.
_METADATA_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Codecs that make Python objects out of bytes. Numbers need none of them, and `pickle` runs the code that it is given.
_OBJECT_CODECS = ("pickle", "json2", "msgpack2", "vlen-utf8", "vlen-bytes", "vlen-array", "categorize")


def open_array(url: str, name: str | None = None) -> zarr.Array[Any]:
    """Open a Zarr array, of format 2 or 3, for reading.

    Parameters
    ----------
    url : str
        Path or URL of an array, or of a group that holds it; or path of a zip archive of one.
    name : str or None
        Path of the array inside a group; may be left out if the group holds a single array, at any depth.

    Returns
    -------
    zarr.Array
        Read-only; its chunk grid is regular and its dtype is not one of Python objects.

    Raises
    ------
    FileNotFoundError
        If nothing is stored there. Nothing is created.
    ValueError
        If `url` is a group and `name` does not choose one of its arrays; the message lists them. If it is a file of
        another kind, or its metadata are damaged; the message names the file.
    """

    def choose(node: zarr.Array[Any] | zarr.Group) -> zarr.Array[Any]:
        if isinstance(node, zarr.Group):
            node = chosen_member(url, node, name)
        elif name is not None:
            raise ValueError(f"{url} is an array itself; array={name!r} chooses one inside a group")
        refuse_objects(url, node)
        _ = node.chunks, node.shards, node.dtype  # raises for grids that are not regular
        return node

    return _without_checks(_from_node(url, choose))


def open_arrays(url: str) -> dict[str, zarr.Array[Any]]:
    """Open all arrays of a Zarr store for reading, whatever they hold.

    Parameters
    ----------
    url : str
        As for `open_array`.

    Returns
    -------
    dict of str to zarr.Array
        By their paths in the group; the path of an array itself is empty.

    Raises
    ------
    FileNotFoundError, ValueError
        As `open_array`.
    """
    return _from_node(url, lambda node: {"": node} if isinstance(node, zarr.Array) else arrays_of(node))


def _from_node(url: str, read: Callable[[zarr.Array[Any] | zarr.Group], Result]) -> Result:
    """What a function makes of the array or group at a URL; errors of its metadata are one line."""
    store = _store_of(url)
    try:
        return _read_node(url, read, store)
    except BaseException:
        _close(store)
        raise


def _read_node(url: str, read: Callable[[zarr.Array[Any] | zarr.Group], Result], store: Any) -> Result:
    try:
        return read(zarr.open(store, mode="r"))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{url}: no Zarr array or group is stored there") from error
    except BadMetadata:
        raise
    except _METADATA_ERRORS as error:
        if isinstance(error, ValueError) and str(error).startswith(url):
            raise
        message = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{url}: its metadata are damaged, or of a kind that Zarr does not know: {type(error).__name__}: {message}"
            "; restore them from a copy, or write the array again"
        ) from error


def _close(store: Any) -> None:
    """Close the file of an archive that will not be read."""
    if isinstance(store, MetadataStore) and isinstance(store.inner, ZipStore):
        with suppress(AttributeError):  # raised by one that was not opened yet: it has no file to close
            store.inner.close()


def _store_of(url: str) -> Any:
    """The store of a path or URL, which checks metadata as they are read."""
    if "://" in url:
        target = zarr_target(url)
        return MetadataStore(target, url) if is_object_store(url) else target
    kind = irregular(url)
    if kind not in (None, "a folder"):
        raise ValueError(f"{url} is {kind}, expected a folder or a file")
    if not os.path.isfile(url):
        return MetadataStore(LocalStore(url, read_only=True), url)
    try:
        is_archive = zipfile.is_zipfile(url)
        if is_archive:
            zipfile.ZipFile(url).close()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"{url}: a zip archive that cannot be read: {error}; restore it from a copy") from error
    if not is_archive:
        raise ValueError(f"{url}: a file, and neither a zip archive of a Zarr store nor a .npy file")
    return MetadataStore(ZipStore(url, mode="r"), url)


def _without_checks(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """The same array in the store itself: its chunks are not metadata."""
    store = array.store
    if not isinstance(store, MetadataStore):
        return array
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=StorePath(store.inner, array.path)))


def refuse_objects(label: str, array: zarr.Array[Any]) -> None:
    """Refuse an array whose codecs make Python objects: decoding them may run code.

    Parameters
    ----------
    label : str
        Path of the store or name of the argument, for the message.
    array : zarr.Array
        The array; nothing of it is decoded.

    Raises
    ------
    ValueError
        Naming the codec or the dtype.
    """
    object_codecs = [name for name in _codec_names(array.metadata) if name in _OBJECT_CODECS]
    if object_codecs or array.dtype.kind == "O":
        what = f"the codec {object_codecs[0]!r}" if object_codecs else f"the dtype {array.dtype}"
        path = f"{label}/{array.path}" if array.path else label
        raise ValueError(f"{path}: {what} holds objects of Python, expected numbers; nothing of it was decoded")


def _codec_names(metadata: Any) -> list[str]:
    if metadata.zarr_format == 2:
        codecs = (*(metadata.filters or ()), *(() if metadata.compressor is None else (metadata.compressor,)))
        return [str(codec.codec_id) for codec in codecs]
    return _names_v3(metadata.codecs)


def _names_v3(codecs: tuple[Any, ...]) -> list[str]:
    names: list[str] = []
    for codec in codecs:
        names.append(str(codec.to_dict()["name"]).removeprefix("numcodecs."))
        if isinstance(codec, ShardingCodec):
            names += _names_v3((*codec.codecs, *codec.index_codecs))
    return names
