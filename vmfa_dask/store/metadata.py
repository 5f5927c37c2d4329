"""Metadata of Zarr, checked before Zarr parses them: errors name the damaged file. May import: zarr, store."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, WrapperStore

from vmfa_dask.store.regular import status_of

# Bytes of a file of metadata, at most; those of whole hierarchies have some megabytes.
_MOST_BYTES = 2**28
# Chunks of a shard, at most; its index takes 16 bytes for each.
_MOST_IN_SHARD = 2**26
_WAY_OUT = "restore it from a copy, or write the array again"


class BadMetadata(ValueError):
    """Metadata that describe neither an array nor a group."""


class MetadataStore(WrapperStore[Store]):
    """A store from which only metadata are read; each file is checked on the way.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store itself.
    url : str
        Its path or URL, for messages.
    """

    def __init__(self, store: Store, url: str) -> None:
        super().__init__(store)
        self.url = url

    @property
    def inner(self) -> Store:
        """The store itself."""
        return self._store

    def _with_store(self, store: Store) -> MetadataStore:
        return MetadataStore(store, self.url)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Content of a file of metadata.

        Parameters
        ----------
        key : str
            Relative to the store.
        prototype : BufferPrototype
            Kind of memory that Zarr asks for.
        byte_range : ByteRequest or None
            Part of the file; None for all of it.

        Returns
        -------
        Buffer or None
            None if there is no such file.

        Raises
        ------
        BadMetadata
            Naming the file that is not a regular one, is too long or damaged.
        """
        path = f"{self.url.rstrip('/')}/{key}"
        if isinstance(self._store, LocalStore):
            status = status_of(os.path.join(str(self._store.root), key))
            if status.irregular is not None:
                raise BadMetadata(f"{path} is {status.irregular}, expected a regular file")
            if (status.n_bytes or 0) > _MOST_BYTES:
                raise BadMetadata(f"{path} has {status.n_bytes} bytes, expected at most {_MOST_BYTES}; {_WAY_OUT}")
        content = await self._store.get(key, prototype, byte_range)
        if content is not None:
            problem = problem_of(key.rsplit("/", 1)[-1], content.to_bytes())
            if problem is not None:
                raise BadMetadata(f"{path} is damaged: {problem}; {_WAY_OUT}")
        return content


def problem_of(name: str, raw: bytes) -> str | None:
    """What is wrong with a file of metadata.

    Parameters
    ----------
    name : str
        Name of the file without its folder; only files that Zarr knows are looked into.
    raw : bytes
        Its content.

    Returns
    -------
    str or None
        The first problem, in words that follow "is damaged: "; None if there is none.
    """
    if not raw:
        return "it is empty"
    try:
        document = json.loads(raw)
    except RecursionError:
        return "it is nested too deeply"
    except UnicodeDecodeError as error:
        return f"no text in UTF-8: {error.reason} at byte {error.start}"
    except ValueError as error:
        return f"no JSON: {str(error).splitlines()[0]}"
    return _problem(name, document)


def _problem(name: str, document: Any) -> str | None:
    if not isinstance(document, dict):
        return f"found {_kind(document)}, expected an object"
    if name == "zarr.json":
        return _of_node(document)
    if name == ".zarray":
        return _of_array_v2(document)
    if name == ".zmetadata":
        return _of_members(document.get("metadata"), lambda path: path.rsplit("/", 1)[-1])
    return None


def _of_node(document: Mapping[str, Any]) -> str | None:
    if document.get("zarr_format") != 3:
        return f"zarr_format is {_shown(document.get('zarr_format'))}, expected 3"
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        return f"attributes are {_kind(attributes)}, expected an object"
    kind = document.get("node_type")
    if kind == "array":
        return _of_array(document)
    if kind != "group":
        return f"node_type is {_shown(kind)}, expected 'array' or 'group'"
    consolidated = document.get("consolidated_metadata")
    if consolidated is None:
        return None
    if not isinstance(consolidated, dict):
        return f"consolidated_metadata is {_kind(consolidated)}, expected an object"
    return _of_members(consolidated.get("metadata"), lambda path: "zarr.json")


def _of_members(members: Any, file_name: Callable[[str], str]) -> str | None:
    """What is wrong with the first damaged member of consolidated metadata; `file_name` tells its kind by its path."""
    if not isinstance(members, dict):
        return f"its metadata are {_kind(members)}, expected an object"
    for path, member in members.items():
        problem = _problem(file_name(path), member)
        if problem is not None:
            return f"in {path!r}, {problem}"
    return None


def _of_array(document: Mapping[str, Any]) -> str | None:
    for name in ("data_type", "chunk_key_encoding", "fill_value"):
        if name not in document:
            return f"{name} is missing"
    grid, codecs = document.get("chunk_grid"), document.get("codecs")
    if not isinstance(grid, dict):
        return f"chunk_grid is {_kind(grid)}, expected an object"
    if not isinstance(codecs, list) or not codecs:
        return f"codecs are {_kind(codecs)}, expected a list with one codec at least"
    problem = _of_sizes("shape", document.get("shape"), 0)
    if problem or grid.get("name") != "regular":
        return problem
    chunks = _configuration(grid).get("chunk_shape")
    problem = _of_sizes("chunk_shape", chunks, 1) or _of_lengths("chunk_shape", chunks, document["shape"])
    return problem or _of_shards(codecs, chunks)


def _of_shards(codecs: Any, shards: Any) -> str | None:
    for codec in codecs if isinstance(codecs, list) else []:
        if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
            chunks: Any = _configuration(codec).get("chunk_shape")
            name = "chunk_shape of shards"
            problem = _of_sizes(name, chunks, 1) or _of_lengths(name, chunks, shards)
            if problem:
                return problem
            n = math.prod(shard // chunk for shard, chunk in zip(shards, chunks, strict=True))
            if n > _MOST_IN_SHARD:
                return f"a shard has {n} chunks, expected at most {_MOST_IN_SHARD}"
            return _of_shards(_configuration(codec).get("codecs"), chunks)
    return None


def _of_array_v2(document: Mapping[str, Any]) -> str | None:
    if document.get("zarr_format") != 2:
        return f"zarr_format is {_shown(document.get('zarr_format'))}, expected 2"
    if not isinstance(document.get("dtype"), str | list):
        return f"dtype is {_kind(document.get('dtype'))}, expected text"
    if document.get("order") not in ("C", "F"):
        return f"order is {_shown(document.get('order'))}, expected 'C' or 'F'"
    filters, compressor = document.get("filters") or [], document.get("compressor")
    if not isinstance(filters, list):
        return f"filters are {_kind(filters)}, expected a list"
    for codec in (*filters, *([] if compressor is None else [compressor])):
        if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
            return f"found the codec {_shown(codec)}, expected an object with an id"
    shape, chunks = document.get("shape"), document.get("chunks")
    return _of_sizes("shape", shape, 0) or _of_sizes("chunks", chunks, 1) or _of_lengths("chunks", chunks, shape)


def _configuration(node: Mapping[str, Any]) -> Mapping[str, Any]:
    configuration = node.get("configuration")
    return configuration if isinstance(configuration, dict) else {}


def _of_sizes(name: str, sizes: Any, least: int) -> str | None:
    if not isinstance(sizes, list):
        return f"{name} is {_kind(sizes)}, expected a list of whole numbers"
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not least <= size < 2**63:
            return f"{name} is {_shown(sizes)}, expected whole numbers from {least} on and below 2**63"
    return None


def _of_lengths(name: str, sizes: Any, shape: Any) -> str | None:
    if len(sizes) != len(shape):
        return f"{name} {_shown(sizes)} and shape {_shown(shape)} have different numbers of axes"
    return None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
