"""Chunk files read without Zarr, where they hold whole rows: uncompressed, or compressed with Zstandard or Blosc.

Zarr decodes each chunk into memory of its own and then copies it. Here bytes are read or decoded straight into the
block of rows that the kernels get, by the codecs that Zarr uses: a fifth to four fifths of Zarr's time
(docs/decisions/0005). `direct_reader` is the only way in: it answers None for arrays that only Zarr can read, and then
the rows come through Zarr, with the same values.

The environment variable ``VMFA_DIRECT_READS`` switches all of this off: with ``VMFA_DIRECT_READS=0`` every chunk is
read and decoded by Zarr. It is looked up when an array is opened, so it must be set in the environment of the workers
too. tests/store/test_direct.py compares both ways over the layouts that Zarr can write.

May import: numpy, zarr, numcodecs, store.
"""

from __future__ import annotations

import os
from typing import Any

import zarr

from vmfa_dask.store.direct.chunk_files import ChunkFiles
from vmfa_dask.store.direct.compressed import CompressedReader, decoder_into
from vmfa_dask.store.direct.flat import FlatReader
from vmfa_dask.store.direct.layouts import row_compressors
from vmfa_dask.store.direct.reader import DirectReader
from vmfa_dask.store.pipeline import is_default_pipeline

SWITCH = "VMFA_DIRECT_READS"


def direct_reader(array: zarr.Array[Any], refuse_missing: bool = True) -> DirectReader | None:
    """Reader of an array's chunk files that bypasses Zarr.

    Where another codec pipeline than Zarr's own is configured, compressed chunks are left to it.

    Parameters
    ----------
    array : zarr.Array
        The array, opened for reading.
    refuse_missing : bool
        Whether a chunk that is not stored is an error; otherwise its rows are the fill value.

    Returns
    -------
    DirectReader or None
        None if only Zarr can read this array, or direct reads are switched off.

    Raises
    ------
    ValueError
        If ``VMFA_DIRECT_READS`` is neither 0 nor 1.
    """
    compressors = row_compressors(array) if _switched_on() else None
    if compressors is None:
        return None
    if not compressors:
        return FlatReader(ChunkFiles(array, refuse_missing))
    decode = decoder_into(compressors[0]) if len(compressors) == 1 and is_default_pipeline() else None
    return None if decode is None else CompressedReader(ChunkFiles(array, refuse_missing), decode)


def _switched_on() -> bool:
    value = os.environ.get(SWITCH, "1")
    if value not in ("0", "1"):
        raise ValueError(f"the environment variable {SWITCH} is {value!r}, expected 0 or 1")
    return value == "1"
