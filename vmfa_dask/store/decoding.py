"""Compressed bytes decoded into at most the memory that their chunk takes, by the codecs that Zarr uses.

Most codecs allocate as much memory as the stored bytes announce, which may be thousands of times their size, and Blosc
reads beyond the end of what is stored, where other chunks may lie. Here sizes are compared before anything is decoded,
and formats that announce no size are decoded up to the size of the chunk and no further. May import: numpy, numcodecs,
store.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numcodecs.blosc
import numcodecs.lz4
import numcodecs.zstd
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_BLOSC_HEADER = 16
# Bytes that an LZMA decoder takes for its tables, at the highest level.
_LZMA_TABLES = 2**27


class Decoder(Protocol):
    """Decodes a stored chunk within a bound."""

    def __call__(self, stored: Bytes, size: int, exact: bool = True) -> Bytes:
        """Decode.

        Parameters
        ----------
        stored : (n,) uint8 array
            The stored bytes.
        size : int
            Bytes that the chunk has when it is decoded.
        exact : bool
            Whether it must have exactly as many; otherwise `size` is an upper bound.

        Returns
        -------
        (m,) uint8 array
            The decoded bytes; m = size if exact.

        Raises
        ------
        ValueError
            If the content has another size.
        RuntimeError, OSError, EOFError, zlib.error, lzma.LZMAError
            If it cannot be decoded, as the codec says.
        """


def _checked(decoded: bytes, size: int, exact: bool) -> Bytes:
    if len(decoded) > size or (exact and len(decoded) != size):
        n_bytes = f"more than {size}" if len(decoded) > size else str(len(decoded))
        raise ValueError(f"it holds {n_bytes} bytes, expected {'' if exact else 'at most '}{size}")
    return np.frombuffer(decoded, np.uint8)


def _of_stream(open_stream: Callable[[io.BytesIO], Any]) -> Decoder:
    """Decoder of a format that is read like a file; reading to its end compares its checksum."""

    def decode(stored: Bytes, size: int, exact: bool = True) -> Bytes:
        with open_stream(io.BytesIO(stored.tobytes())) as stream:
            return _checked(stream.read(size + 1), size, exact)

    return decode


def _zlib(stored: Bytes, size: int, exact: bool = True) -> Bytes:
    stream = zlib.decompressobj()
    decoded = _checked(stream.decompress(stored.data, size + 1), size, exact)
    if not stream.eof or stream.unused_data:
        raise ValueError("its stream is cut short" if not stream.eof else "bytes follow its stream")
    return decoded


def _lzma(config: Mapping[str, Any]) -> Decoder:
    container, filters = config.get("format", lzma.FORMAT_XZ), config.get("filters")

    def decode(stored: Bytes, size: int, exact: bool = True) -> Bytes:
        limit = None if container == lzma.FORMAT_RAW else size + _LZMA_TABLES
        stream = lzma.LZMADecompressor(container, limit, filters)
        decoded = _checked(stream.decompress(stored.data, size + 1), size, exact)
        if container != lzma.FORMAT_RAW and not stream.eof:
            raise ValueError("its stream is cut short")
        return decoded

    return decode


def _lz4(stored: Bytes, size: int, exact: bool = True) -> Bytes:
    announced = int.from_bytes(stored[:4].tobytes(), "little") if len(stored) > 4 else None
    _compare(announced, size, exact)
    return _checked(numcodecs.lz4.decompress(stored), size, exact)


def _compare(announced: int | None, size: int, exact: bool) -> None:
    if announced is None or announced > size or (exact and announced != size):
        content = "no size" if announced is None else f"{announced} bytes"
        raise ValueError(f"it says that it holds {content}, expected {'' if exact else 'at most '}{size}")


def _blosc(stored: Bytes, size: int, exact: bool = True) -> Bytes:
    out = np.empty(_size_of_blosc(stored, size, exact), np.uint8)
    if len(out):
        numcodecs.blosc.decompress(stored, out)
    return out


def _zstd(stored: Bytes, size: int, exact: bool = True) -> Bytes:
    if not exact:
        announced = zstd_size(stored)
        _compare(announced, size, exact)
        size = announced or 0
    out = np.empty(size, np.uint8)
    zstd_into(stored, out)
    return out


def _size_of_blosc(stored: Bytes, size: int, exact: bool) -> int:
    """Size of the content, once all that the header says is compared with what is stored and expected."""
    if len(stored) < _BLOSC_HEADER:
        raise ValueError(f"it has {len(stored)} bytes, and the header of Blosc alone has {_BLOSC_HEADER}")
    header = stored[:_BLOSC_HEADER].tobytes()
    version, content, block, length = header[0], *(int.from_bytes(header[k : k + 4], "little") for k in (4, 8, 12))
    if version not in (1, 2):
        raise ValueError(f"its header has the version {version} of Blosc's format, expected 2")
    if length != len(stored):
        raise ValueError(f"its header says that it has {length} bytes, and {len(stored)} are stored")
    _compare(content, size, exact)
    copied = header[2] & 2
    if copied and length != content + _BLOSC_HEADER:
        raise ValueError(f"it has {length} bytes for {content} that are only copied")
    if content and not 0 < block <= content:
        raise ValueError(f"its header says that its blocks have {block} bytes, of {content}")
    if content and not copied and _BLOSC_HEADER + 4 * -(-content // block) > length:
        raise ValueError(f"its {length} bytes are too few for blocks of {block}")
    return content


def blosc_into(stored: Bytes, out: Bytes) -> None:
    """Decode a chunk of Blosc.

    Parameters
    ----------
    stored : (n,) uint8 array, contiguous
        The stored bytes.
    out : (m,) uint8 array, contiguous
        Filled with the content, which must have exactly m bytes.

    Raises
    ------
    ValueError
        If the header does not fit the stored bytes, or the content has another size.
    RuntimeError
        If it cannot be decoded.
    """
    _size_of_blosc(stored, len(out), exact=True)
    numcodecs.blosc.decompress(stored, out)


def zstd_into(stored: Bytes, out: Bytes) -> None:
    """Decode a chunk of Zstandard.

    Parameters
    ----------
    stored : (n,) uint8 array, contiguous
        The stored bytes.
    out : (m,) uint8 array, contiguous
        Filled with the content, which must have exactly m bytes.

    Raises
    ------
    ValueError
        If the content has another size.
    RuntimeError
        If it cannot be decoded.
    """
    announced = zstd_size(stored)
    if announced is not None and announced > len(out):
        raise ValueError(f"it says that it holds {announced} bytes, expected {len(out)}")
    numcodecs.zstd.decompress(stored, out)
    if announced != len(out) and _fits(stored, len(out) - 1):  # the codec does not touch what is left of `out`
        raise ValueError(f"it holds fewer bytes than {len(out)}")


def _fits(stored: Bytes, size: int) -> bool:
    """Whether the content has at most `size` bytes, for several frames, or one that does not announce its size."""
    try:
        numcodecs.zstd.decompress(stored, np.empty(size, np.uint8))
    except (ValueError, RuntimeError):
        return False
    return True


def zstd_size(stored: Bytes) -> int | None:
    """Size of the content that the header of the first frame announces (RFC 8878, section 3.1.1.1).

    Parameters
    ----------
    stored : (n,) uint8 array
        The stored bytes.

    Returns
    -------
    int or None
        In bytes; None if the header does not tell, or is not one of Zstandard.
    """
    header = stored[:18].tobytes()
    if len(header) < 6 or header[:4] != b"\x28\xb5\x2f\xfd":
        return None
    single, flag = header[4] >> 5 & 1, header[4] >> 6
    n_bytes = (single, 2, 4, 8)[flag]
    if n_bytes == 0:
        return None
    offset = 5 + (1 - single) + (0, 1, 2, 4)[header[4] & 3]
    return int.from_bytes(header[offset : offset + n_bytes], "little") + (256 if flag == 1 else 0)


def decoder_of(codec: str, config: Mapping[str, Any]) -> Decoder | None:
    """Decoder of a codec.

    Parameters
    ----------
    codec : str
        Its name in Numcodecs, such as "zstd".
    config : mapping
        Its configuration in the metadata of the array.

    Returns
    -------
    Decoder or None
        None for a codec that is not known here, or that does not change the size.
    """
    decoders: dict[str, Decoder] = {
        "gzip": _of_stream(lambda file: gzip.GzipFile(fileobj=file)),
        "bz2": _of_stream(bz2.BZ2File),
        "zlib": _zlib,
        "lzma": _lzma(config),
        "lz4": _lz4,
        "zstd": _zstd,
        "blosc": _blosc,
    }
    return decoders.get(codec)
