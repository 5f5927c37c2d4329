"""The index of a shard, which says where each of its chunks lies; it is checked against itself and the shard's size.

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

# Offset and length of a chunk that its shard leaves out.
NOT_STORED = 2**64 - 1
_CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class ShardLayout:
    """Where the index of each shard of an array lies, and how it is stored.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    chunks, shards : tuple of int
        Shape of a chunk, and of a shard.
    in_front : bool
        Whether the index lies before the chunks rather than behind them.
    checksum : bool
        Whether a CRC32C of four bytes follows the index.
    order : {"<", ">"}
        Byte order of the index.
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
        return tuple(shard // chunk for shard, chunk in zip(self.shards, self.chunks, strict=True))

    @property
    def index_bytes(self) -> int:
        """Bytes of the index, its checksum included."""
        return 16 * math.prod(self.grid) + self.checksum * _CHECKSUM_BYTES

    def index_offset(self, shard_bytes: int) -> int:
        """Byte at which the index begins.

        Parameters
        ----------
        shard_bytes : int
            Size of the stored shard.

        Returns
        -------
        int
            Negative if the shard is too short for an index behind the chunks.
        """
        return 0 if self.in_front else shard_bytes - self.index_bytes

    def parse(self, key: str, raw: bytes, shard_bytes: int | None) -> NDArray[np.uint64]:
        """Read and check an index.

        Parameters
        ----------
        key : str
            Key of the shard, for messages.
        raw : bytes
            The stored index with its checksum.
        shard_bytes : int or None
            Size of the stored shard; None if it is not known.

        Returns
        -------
        (chunks of a shard, 2) uint64 array
            Offset and length of each chunk in bytes; `NOT_STORED` twice for one that is left out.

        Raises
        ------
        ChunkDamaged
            If the checksum does not match, or chunks overlap or lie outside the shard.
        """
        n = self.index_bytes - self.checksum * _CHECKSUM_BYTES
        if len(raw) != self.index_bytes:
            raise ChunkDamaged(f"chunk {key} is cut short: it is smaller than its index")
        if self.checksum and int(google_crc32c.value(raw[:n])).to_bytes(_CHECKSUM_BYTES, "little") != raw[n:]:
            raise ChunkDamaged(f"chunk {key}: the index of the shard is damaged: its checksum does not match")
        index = np.frombuffer(raw[:n], f"{self.order}u8").reshape(-1, 2).astype(np.uint64, copy=False)
        problem = self._contradiction(index, shard_bytes)
        if problem:
            raise ChunkDamaged(f"chunk {key}: the index of the shard is damaged: {problem}")
        return index

    def _contradiction(self, index: NDArray[np.uint64], shard_bytes: int | None) -> str | None:
        left_out = index == np.uint64(NOT_STORED)
        if (left_out[:, 0] != left_out[:, 1]).any():
            return "a chunk has an offset without a length, or a length without an offset"
        offset, length = index[~left_out[:, 0]].T
        low = self.index_bytes if self.in_front else 0
        high = 2**63 - 1 if shard_bytes is None else shard_bytes - (0 if self.in_front else self.index_bytes)
        if (offset < low).any() or (length > high).any() or (offset > high - length).any():
            return f"a chunk lies outside of its {'' if shard_bytes is None else f'{shard_bytes} '}bytes"
        if (length == 0).any():
            return "a chunk has no bytes"
        order = np.argsort(offset)
        offset, length = offset[order], length[order]
        return "chunks overlap" if (offset[1:] < offset[:-1] + length[:-1]).any() else None

    def left_out(self, index: NDArray[np.uint64], coords: tuple[int, ...]) -> NDArray[np.int64]:
        """Chunks that belong to the array and that a shard leaves out.

        Parameters
        ----------
        index : (chunks of a shard, 2) uint64 array
            As `parse` returns it.
        coords : tuple of int
            Coordinates of the shard in the grid of shards.

        Returns
        -------
        (n,) int64 array
            Their numbers in the shard, ascending.
        """
        not_stored = (index[:, 0] == np.uint64(NOT_STORED)).reshape(self.grid)
        inside = tuple(
            slice(0, max(0, -(-min(shard, length - at * shard) // chunk)))
            for at, length, shard, chunk in zip(coords, self.shape, self.shards, self.chunks, strict=True)
        )
        belong = np.zeros(self.grid, bool)
        belong[inside] = not_stored[inside]
        return np.flatnonzero(belong)

    def refuse_left_out(self, key: str, index: NDArray[np.uint64], coords: tuple[int, ...]) -> None:
        """Refuse a shard that leaves out chunks of the array.

        Parameters
        ----------
        key : str
            Key of the shard, for the message.
        index, coords
            As for `left_out`.

        Raises
        ------
        ChunkMissing
            With their number.
        """
        missing = self.left_out(index, coords)
        if len(missing):
            raise ChunkMissing(
                f"chunk {key}: {len(missing)} of the {len(index)} chunks in this shard are not stored, the first one "
                f"is number {missing[0]}"
            )


def layout_of(array: zarr.Array[Any]) -> ShardLayout | None:
    """How the shards of an array are laid out.

    Parameters
    ----------
    array : zarr.Array
        The array; only its metadata are used.

    Returns
    -------
    ShardLayout or None
        None if the array has no shards, or their index is not stored as plain numbers.
    """
    metadata: Any = array.metadata
    if metadata.zarr_format != 3 or array.shards is None:
        return None
    sharding = metadata.codecs[0]
    assert isinstance(sharding, ShardingCodec)
    index_codecs = [type(codec) for codec in sharding.index_codecs]
    if index_codecs not in ([BytesCodec], [BytesCodec, Crc32cCodec]):
        return None
    numbers: Any = sharding.index_codecs[0]
    endian = numbers.endian
    order = sys.byteorder if endian is None else endian.value
    return ShardLayout(
        array.shape,
        array.chunks,
        array.shards,
        in_front=sharding.index_location.value == "start",
        checksum=len(index_codecs) == 2,
        order="<" if order == "little" else ">",
    )
