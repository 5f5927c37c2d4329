"""Which arrays have chunk files that hold whole rows as they are in memory. May import: zarr, store."""

from __future__ import annotations

import os
import sys
from typing import Any

import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.storage import LocalStore


def row_compressors(array: zarr.Array[Any]) -> tuple[Any, ...] | None:
    """Codecs that have compressed the rows of each chunk.

    Parameters
    ----------
    array : zarr.Array
        The array; only its metadata are used.

    Returns
    -------
    tuple of codecs or None
        In the order of writing, and empty if chunks are not compressed. None if a chunk does not hold whole rows in C
        order and in the dtype of the array, if shards have an index of another kind than Zarr's default, or if the
        array does not lie in a folder.
    """
    if not isinstance(array.store, LocalStore) or not hasattr(os, "preadv"):
        return None
    if array.chunks[1:] != array.shape[1:]:
        return None
    if array.metadata.zarr_format == 2:  # the byte order of its chunks is that of its dtype
        return _compressors_v2(array.metadata)
    return _compressors_v3(array) if sys.byteorder == "little" else None


def _compressors_v2(metadata: Any) -> tuple[Any, ...] | None:
    if metadata.filters or metadata.order != "C":
        return None
    return () if metadata.compressor is None else (metadata.compressor,)


def _compressors_v3(array: zarr.Array[Any]) -> tuple[Any, ...] | None:
    metadata: Any = array.metadata
    codecs: tuple[Any, ...] = metadata.codecs
    if len(codecs) == 1 and isinstance(codecs[0], ShardingCodec):
        sharding = codecs[0]
        plain_index = [type(codec) for codec in sharding.index_codecs] == [BytesCodec, Crc32cCodec]
        whole_rows = array.shards is not None and array.shards[1:] == array.chunks[1:]
        if not plain_index or not whole_rows or sharding.index_location.value != "end":
            return None
        codecs = sharding.codecs
    return codecs[1:] if isinstance(codecs[0], BytesCodec) and _is_little(codecs[0]) else None


def _is_little(codec: BytesCodec) -> bool:
    return codec.endian is None or codec.endian.value == "little"
