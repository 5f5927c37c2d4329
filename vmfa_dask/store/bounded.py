"""An array whose chunks Zarr decodes in bounds, whatever size their stored bytes announce; see `decoding`.

May import: numpy, zarr, numcodecs, store.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr
from numcodecs.abc import Codec as Numcodec
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
from zarr.abc.store import Store
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.storage import StorePath

from vmfa_dask.store.decoding import Decoder, decoder_of

_CHECKSUM_BYTES = 4
# Of the names of those codecs of format 3 that Numcodecs provides.
_PREFIX = "numcodecs."


def _upper_bound(n_values: int, itemsize: int) -> int:
    """Bytes of a chunk, at most, where filters or several codecs make the exact number unknown."""
    return n_values * (2 * itemsize + 16) + 2**20


@dataclass(frozen=True)
class _Bounded(BytesBytesCodec):
    """A codec of format 3 for reading.

    Parameters
    ----------
    decode_at_most : Decoder
        Its decoder.
    added : int or None
        Bytes by which its output is longer than the chunk (checksums); None if that is not known.
    """

    is_fixed_size = False
    decode_at_most: Decoder
    added: int | None

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        n_values, itemsize = math.prod(chunk_spec.shape), chunk_spec.dtype.to_native_dtype().itemsize
        exact = self.added is not None
        size = n_values * itemsize + (self.added or 0) if exact else _upper_bound(n_values, itemsize)
        stored = np.asarray(chunk_bytes.as_numpy_array()).view(np.uint8)
        decoded = await asyncio.to_thread(self.decode_at_most, stored, size, exact)
        return chunk_spec.prototype.buffer.from_array_like(decoded)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError  # not known before it is encoded, as for Zarr's own codecs


class _BoundedV2(Numcodec):  # type: ignore[misc]  # Numcodecs has no types
    """A compressor of format 2 for reading; arguments as for `Decoder`."""

    codec_id = "vmfa_bounded"

    def __init__(self, decode_at_most: Decoder, size: int, exact: bool) -> None:
        self._decode, self._size, self._exact = decode_at_most, size, exact

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError  # only for reading

    def decode(self, buf: Any, out: Any = None) -> Any:
        return self._decode(np.frombuffer(buf, np.uint8), self._size, self._exact)


def _bounded_codecs(codecs: tuple[Any, ...]) -> tuple[Any, ...]:
    bounded: list[Any] = []
    added: int | None = 0
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            codec = replace(codec, codecs=_bounded_codecs(codec.codecs))
        if isinstance(codec, ArrayBytesCodec):
            added = 0 if isinstance(codec, BytesCodec) else None
        elif isinstance(codec, Crc32cCodec):
            added = None if added is None else added + _CHECKSUM_BYTES
        elif isinstance(codec, BytesBytesCodec):
            metadata: Mapping[str, Any] = codec.to_dict()
            name, config = str(metadata["name"]).removeprefix(_PREFIX), metadata.get("configuration") or {}
            decoder = decoder_of(name, config)
            codec, added = _Bounded(decoder, added) if decoder is not None else codec, None
        bounded.append(codec)
    return tuple(bounded)


def _bounded_metadata(metadata: Any) -> Any:
    if metadata.zarr_format == 3:
        return replace(metadata, codecs=_bounded_codecs(metadata.codecs))
    codec = metadata.compressor
    decoder = None if codec is None else decoder_of(codec.codec_id, codec.get_config())
    if decoder is None:
        return metadata
    n_values, itemsize = math.prod(metadata.chunks), metadata.dtype.to_native_dtype().itemsize
    exact = not metadata.filters
    size = n_values * itemsize if exact else _upper_bound(n_values, itemsize)
    return replace(metadata, compressor=_BoundedV2(decoder, size, exact))


def most_stored_bytes(array: zarr.Array[Any]) -> int:
    """Size of a stored chunk or shard, at most: codecs make nothing much longer than it was.

    Parameters
    ----------
    array : zarr.Array
        The array; only its metadata are used.

    Returns
    -------
    int
        In bytes.
    """
    return _upper_bound(math.prod(array.shards or array.chunks), array.dtype.itemsize)


def read_through(array: zarr.Array[Any], store: Store) -> zarr.Array[Any]:
    """The same array, read through another store and decoded in bounds.

    Parameters
    ----------
    array : zarr.Array
        The array, opened for reading.
    store : zarr.abc.store.Store
        Where its chunks are read from, by the same keys.

    Returns
    -------
    zarr.Array
        For reading only. A chunk that announces or holds more than its size raises an error when it is read.
    """
    path = StorePath(store, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=_bounded_metadata(array.metadata), store_path=path))
