"""The index of a shard: where each of its chunks lies. What it says is compared with itself and with the shard.

Zarr takes a chunk that the index leaves out as fill values, and reads whatever bytes an index names. May import: numpy,
zarr, google_crc32c, store.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from vmfa_dask.store.damage import ChunkDamaged, ChunkMissing

_NOT_STORED = np.uint64(2**64 - 1)
_CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class ShardLayout:
    """Where the index of each shard of an array lies, and which chunks it has places for.

    Parameters
    ----------
    shape : of the array
    chunks, shards : shape of a chunk, and of a shard
    in_front : whether the index lies before the chunks, not behind them
    checksum : whether four bytes with its checksum follow the index
    order : byte order of the index, "<" or ">"
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    in_front: bool
    checksum: bool
    order: str

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks of a shard along each axis."""
        return tuple(whole // part for whole, part in zip(self.shards, self.chunks, strict=True))

    @property
    def n_bytes(self) -> int:
        """Bytes of the index, its checksum included."""
        return 16 * math.prod(self.grid) + self.checksum * _CHECKSUM_BYTES

    def begin(self, size: int) -> int:
        """Where the index begins in a shard of `size` bytes; negative where one behind the chunks has no room."""
        return 0 if self.in_front else size - self.n_bytes

    def read(self, key: str, raw: bytes, size: int | None) -> NDArray[np.uint64]:
        """Place and length of each chunk, (chunks, 2).

        Parameters
        ----------
        key : of the shard, for messages
        raw : the bytes of the index
        size : bytes of the shard; None where they are not known

        Raises
        ------
        ChunkDamaged
            When its checksum is another one, or chunks lie outside of the shard or one upon another.
        """
        n = self.n_bytes - self.checksum * _CHECKSUM_BYTES
        if len(raw) != self.n_bytes:
            raise ChunkDamaged(f"chunk {key} is cut short: it is smaller than its index")
        if self.checksum and int(google_crc32c.value(raw[:n])).to_bytes(_CHECKSUM_BYTES, "little") != raw[n:]:
            raise ChunkDamaged(f"chunk {key}: the index of the shard is damaged: its checksum is another one")
        index = np.frombuffer(raw[:n], f"{self.order}u8").reshape(-1, 2).astype(np.uint64, copy=False)
        problem = self._contradiction(index, size)
        if problem:
            raise ChunkDamaged(f"chunk {key}: the index of the shard is damaged: {problem}")
        return index

    def _contradiction(self, index: NDArray[np.uint64], size: int | None) -> str | None:
        absent = index == _NOT_STORED
        if (absent[:, 0] != absent[:, 1]).any():
            return "a chunk has no place but a length, or the other way round"
        start, length = index[~absent[:, 0]].T
        low = self.n_bytes if self.in_front else 0
        high = 2**63 - 1 if size is None else size - (0 if self.in_front else self.n_bytes)
        if (start < low).any() or (length > high).any() or (start > high - length).any():
            return f"a chunk lies outside of its {'' if size is None else f'{size} '}bytes"
        if (length == 0).any():
            return "a chunk has no bytes"
        order = np.argsort(start)
        start, length = start[order], length[order]
        return "chunks lie one upon another" if (start[1:] < start[:-1] + length[:-1]).any() else None

    def absent(self, index: NDArray[np.uint64], place: tuple[int, ...]) -> NDArray[np.int64]:
        """Numbers of the chunks of a shard that belong to the array and are left out, in order.

        Parameters
        ----------
        index : as `read` gives it
        place : of the shard among the shards
        """
        left_out = (index[:, 0] == _NOT_STORED).reshape(self.grid)
        inside = tuple(
            slice(0, max(0, -(-min(whole, length - at * whole) // part)))
            for at, length, whole, part in zip(place, self.shape, self.shards, self.chunks, strict=True)
        )
        found = np.zeros(self.grid, bool)
        found[inside] = left_out[inside]
        return np.flatnonzero(found)

    def refuse_absent(self, key: str, index: NDArray[np.uint64], place: tuple[int, ...]) -> None:
        """Refuse a shard that leaves out chunks of the array.

        Raises
        ------
        ChunkMissing
            With their number.
        """
        absent = self.absent(index, place)
        if len(absent):
            raise ChunkMissing(
                f"chunk {key}: {len(absent)} of the {len(index)} chunks in this shard are not stored, the first one is "
                f"number {absent[0]}"
            )


def layout_of(array: zarr.Array[Any]) -> ShardLayout | None:
    """How the shards of an array are laid out; None where it has none, or their index is not plain numbers."""
    metadata: Any = array.metadata
    if metadata.zarr_format != 3 or array.shards is None:
        return None
    codec = metadata.codecs[0]
    assert isinstance(codec, ShardingCodec)
    kinds = [type(of_index) for of_index in codec.index_codecs]
    if kinds not in ([BytesCodec], [BytesCodec, Crc32cCodec]):
        return None
    of_numbers: Any = codec.index_codecs[0]
    endian = of_numbers.endian
    order = sys.byteorder if endian is None else endian.value
    return ShardLayout(
        array.shape,
        array.chunks,
        array.shards,
        in_front=codec.index_location.value == "start",
        checksum=len(kinds) == 2,
        order="<" if order == "little" else ">",
    )
