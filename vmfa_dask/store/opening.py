"""Zarr arrays opened for reading: nothing is created, nothing is executed, and what is wrong is named in one line.

May import: zarr, store.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import zarr
from zarr.codecs import ShardingCodec
from zarr.storage import LocalStore, StorePath, ZipStore

from vmfa_dask.store.members import chosen_member
from vmfa_dask.store.metadata import BadMetadata, MetadataStore
from vmfa_dask.store.objects import is_object_store, zarr_target
from vmfa_dask.store.regular import irregular

# What Zarr raises over metadata that it cannot make an array of. Errors of a store itself are others, and stay.
_OF_METADATA = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Codecs that make objects of Python out of bytes: numbers need none of them, and `pickle` runs what the bytes say.
_OF_OBJECTS = ("pickle", "json2", "msgpack2", "vlen-utf8", "vlen-bytes", "vlen-array", "categorize")


def open_array(url: str, name: str | None = None) -> zarr.Array[Any]:
    """Open a Zarr v2 or v3 array for reading.

    Parameters
    ----------
    url : path or URL of an array, or of a group that holds it; or a zip archive of one
    name : the array's path in a group; may be left out where the group holds a single array, at any depth

    Raises
    ------
    FileNotFoundError
        When nothing is stored there. Nothing is created.
    ValueError
        When `url` is a group and `name` does not choose one of its arrays; the message lists them. When it is a file of
        another kind, or its metadata are damaged; the message names their file.
    """
    store = _store_of(url)
    try:
        return _unguarded(_opened(url, name, store))
    except BaseException:
        _close(store)
        raise


def _opened(url: str, name: str | None, store: Any) -> zarr.Array[Any]:
    try:
        node = zarr.open(store, mode="r")
        if isinstance(node, zarr.Group):
            node = chosen_member(url, node, name)
        elif name is not None:
            raise ValueError(f"{url} is an array itself; array={name!r} chooses one inside a group")
        refuse_objects(url, node)
        _ = node.chunks, node.shards, node.dtype  # grids that are not regular have none
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{url}: no Zarr array or group is stored there") from error
    except BadMetadata:
        raise
    except _OF_METADATA as error:
        if isinstance(error, ValueError) and str(error).startswith(url):
            raise
        said = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{url}: its metadata are damaged, or of a kind that Zarr does not know: {type(error).__name__}: {said}; "
            "restore them from a copy, or write the array again"
        ) from error
    return node


def _close(store: Any) -> None:
    """Close the file of an archive that nobody will read."""
    if isinstance(store, MetadataStore) and isinstance(store.inner, ZipStore) and store.inner._is_open:
        store.inner.close()


def _store_of(url: str) -> Any:
    """The store of a path or URL, whose metadata are looked at as they are read."""
    if "://" in url:
        target = zarr_target(url)
        return MetadataStore(target, url) if is_object_store(url) else target
    kind = irregular(url)
    if kind not in (None, "a folder"):
        raise ValueError(f"{url} is {kind}, expected a folder or a file")
    if not os.path.isfile(url):
        return MetadataStore(LocalStore(url, read_only=True), url)
    try:
        zipped = zipfile.is_zipfile(url)
        if zipped:
            zipfile.ZipFile(url).close()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"{url}: a zip archive that cannot be read: {error}; restore it from a copy") from error
    if not zipped:
        raise ValueError(f"{url}: a file, and neither a zip archive of a Zarr store nor a .npy file")
    return MetadataStore(ZipStore(url, mode="r"), url)


def _unguarded(array: zarr.Array[Any]) -> zarr.Array[Any]:
    store = array.store
    if not isinstance(store, MetadataStore):
        return array
    where = StorePath(store.inner, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=where))


def refuse_objects(label: str, array: zarr.Array[Any]) -> None:
    """Refuse an array whose codecs make objects of Python: decoding them may run code.

    Raises
    ------
    ValueError
        Naming the codec.
    """
    found = [name for name in _codec_names(array.metadata) if name in _OF_OBJECTS]
    if found or array.dtype.kind == "O":
        what = f"the codec {found[0]!r}" if found else f"the dtype {array.dtype}"
        where = f"{label}/{array.path}" if array.path else label
        raise ValueError(f"{where}: {what} holds objects of Python, expected numbers; nothing of it was decoded")


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
