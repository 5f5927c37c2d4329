"""Compressed rows, decoded straight into the block that is asked for, by several threads.

The codecs are those that Zarr uses. Its pipeline decodes each chunk into fresh memory, which in a worker process means
new pages every time, and copies it: 10.5 µs of a core for a row of 3 kB, against 4.5 µs here (docs/decisions/0005).
May import: numpy, zarr, numcodecs, store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numcodecs.blosc
import numcodecs.zstd
import numpy as np
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, ZstdCodec

from vmfa_dask.store.damage import ChunkDamaged
from vmfa_dask.store.decoding import blosc_into, zstd_into
from vmfa_dask.store.direct.chunk_files import ChunkFiles
from vmfa_dask.store.direct.reader import DirectReader

# Decodes stored bytes (n,) into all of a (m,) array, both uint8 and contiguous.
DecodeInto = Callable[[NDArray[np.uint8], NDArray[np.uint8]], None]

# The classes themselves: a codec derived from one of them may decode in another way.
_DECODERS: dict[type, DecodeInto] = {
    ZstdCodec: zstd_into,
    numcodecs.zstd.Zstd: zstd_into,
    BloscCodec: blosc_into,
    numcodecs.blosc.Blosc: blosc_into,
}
# A buffer that is too short is replaced by one with room for somewhat longer chunks.
_ROOM_TO_GROW = 1.25


def decoder_into(compressor: Any) -> DecodeInto | None:
    """Decoder that writes into given memory.

    Parameters
    ----------
    compressor : codec of Zarr (format 3) or of Numcodecs (format 2)
        What has compressed the chunks.

    Returns
    -------
    callable of (stored, out) or None
        Decodes into all of `out`, and raises ValueError or RuntimeError if the content has another size. None for a
        codec that cannot do this.
    """
    return _DECODERS.get(type(compressor))


class CompressedReader(DirectReader):
    """Reader of an array whose chunks are compressed.

    Parameters
    ----------
    files : ChunkFiles
        The files of the array.
    decode_into : callable of (stored, out)
        As `decoder_into` returns it.
    """

    reads_parts = False

    def __init__(self, files: ChunkFiles, decode_into: DecodeInto) -> None:
        super().__init__(files)
        self._decode_into = decode_into
        self._buffers = threading.local()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Read a range of whole chunks, see `DirectReader.read`; they are decoded by up to `threads` threads."""
        size = self._files.chunk_rows
        chunks = [(first, out[first - start : first - start + size]) for first in range(start, stop, size)]
        if self.threads == 1 or len(chunks) == 1:
            return sum(self._read_chunk(*chunk) for chunk in chunks)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="vmfa-decode")
        return sum(self._pool.map(lambda chunk: self._read_chunk(*chunk), chunks))

    def _read_chunk(self, first: int, out: NDArray[Any]) -> int:
        """The chunk that begins with a row of the array; returns the bytes that were read."""
        number, row = divmod(first, self._files.file_rows)
        with self._files.opened(number) as file:
            extent = None if file is None else self._files.locate(file, row // self._files.chunk_rows)
            if file is None or extent is None:
                out[...] = self._files.fill_value
                return 0
            offset, length = extent
            if length > _most_stored(self._files.chunk_bytes):
                raise ChunkDamaged(
                    f"chunk {file.key} has {length} bytes for {self._files.chunk_bytes} decoded ones"
                )
            stored = self._buffer(length)
            file.read_into(offset, stored)
        self._decode(file.key, stored, out.reshape(-1).view(np.uint8))
        return length

    def _decode(self, key: str, stored: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        # The last chunk is stored as long as the others, so it may not fit into what is left of the block.
        target = out if out.nbytes == self._files.chunk_bytes else np.empty(self._files.chunk_bytes, np.uint8)
        try:
            self._decode_into(stored, target)
        except (ValueError, RuntimeError) as error:
            raise ChunkDamaged(f"chunk {key}: it cannot be decoded: {error}") from error
        if target is not out:
            out[:] = target[: out.nbytes]

    def _buffer(self, n_bytes: int) -> NDArray[np.uint8]:
        """Memory of this thread for a stored chunk; the same each time if it is long enough."""
        buffer: NDArray[np.uint8] | None = getattr(self._buffers, "buffer", None)
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers.buffer = np.empty(int(_ROOM_TO_GROW * n_bytes), np.uint8)
        return buffer[:n_bytes]


def _most_stored(chunk_bytes: int) -> int:
    """Bytes of a stored chunk, at most: these codecs make nothing much longer than it was."""
    return 2 * chunk_bytes + 2**20
