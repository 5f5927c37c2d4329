"""An array whose chunks are decoded in bounds, whatever their stored bytes say: see `decoding`.

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
_PREFIX = "numcodecs."


def _room(n_values: int, itemsize: int) -> int:
    """Bytes of a chunk, at most, where filters or codecs one upon another leave open how many there are."""
    return n_values * (2 * itemsize + 16) + 2**20


@dataclass(frozen=True)
class _Bounded(BytesBytesCodec):
    """A codec of format 3.

    Parameters
    ----------
    decode_at_most : its decoder
    added : bytes by which what it decodes to is longer than its chunk; None where that is not known
    """

    is_fixed_size = False
    decode_at_most: Decoder
    added: int | None

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        n_values, itemsize = math.prod(chunk_spec.shape), chunk_spec.dtype.to_native_dtype().itemsize
        exact = self.added is not None
        size = n_values * itemsize + (self.added or 0) if exact else _room(n_values, itemsize)
        stored = np.asarray(chunk_bytes.as_numpy_array()).view(np.uint8)
        decoded = await asyncio.to_thread(self.decode_at_most, stored, size, exact)
        return chunk_spec.prototype.buffer.from_array_like(decoded)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError  # as Zarr's own: nobody knows


class _BoundedV2(Numcodec):  # type: ignore[misc]  # Numcodecs has no types
    """A compressor of format 2; arguments as those of `Decoder`."""

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
            known: Mapping[str, Any] = codec.to_dict()
            name, config = str(known["name"]).removeprefix(_PREFIX), known.get("configuration") or {}
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
    size = n_values * itemsize if exact else _room(n_values, itemsize)
    return replace(metadata, compressor=_BoundedV2(decoder, size, exact))


def most_stored_bytes(array: zarr.Array[Any]) -> int:
    """Bytes of a stored chunk or shard, at most: codecs make nothing much longer."""
    return _room(math.prod(array.shards or array.chunks), array.dtype.itemsize)


def read_through(array: zarr.Array[Any], store: Store) -> zarr.Array[Any]:
    """The same array, read through another store, and decoded in bounds."""
    where = StorePath(store, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=_bounded_metadata(array.metadata), store_path=where))
