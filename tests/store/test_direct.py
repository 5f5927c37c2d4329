"""Chunk files read directly hold the numbers that Zarr reads from them; one switch leaves all of them to Zarr.

The first test compares both over a product of the layouts that Zarr writes: it fails if a release of Zarr lays out
chunks, shards or their index in another way than `store.direct` reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, ZstdCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import fully_qualified_name, register_pipeline

from tests.samples import draw, make_mixture, parameters, write_store
from tests.store.layouts import (
    COMPRESSED_LAYOUTS,
    FLAT,
    FLAT_LAYOUTS,
    LAYOUTS,
    OTHER_LAYOUTS,
    check_ranges,
    forbid_zarr,
    open_rows,
    stored_bytes,
)
from vmfa_dask import fit_local
from vmfa_dask.store.direct import SWITCH, direct_reader
from vmfa_dask.store.direct.compressed import CompressedReader
from vmfa_dask.store.direct.flat import FlatReader
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.rows import ZarrRows

DTYPES = ["u1", "<i2", ">i2", "<f2", "<f4", ">f4", "<f8", ">i8"]
CODECS: dict[str, dict[int, Any]] = {
    "none": {2: None, 3: None},
    "zstd": {2: numcodecs.Zstd(), 3: ZstdCodec()},
    "zstd with checksums": {2: numcodecs.Zstd(checksum=True), 3: ZstdCodec(checksum=True)},
    "blosc": {2: numcodecs.Blosc(), 3: BloscCodec()},
    "gzip": {2: numcodecs.GZip(), 3: GzipCodec()},
}
# Where the index of a shard lies: "" for chunks that are files of their own.
FORMATS = [(2, ""), (3, ""), (3, "end"), (3, "start")]
SHAPE = (53, 2, 3)
CHUNK, SHARD = (8, 2, 3), (24, 2, 3)  # the last chunk and the last shard reach beyond the rows


def numbers(dtype: str) -> np.ndarray:
    """Numbers whose bytes all differ, so that no order of bytes or rows looks like another one."""
    return (np.arange(np.prod(SHAPE)) * 1.01).reshape(SHAPE).astype(dtype)


def written(path: Path, zarr_format: Any, index: str, codec: str, dtype: str) -> zarr.Array[Any]:
    """An array of one combination; the third chunk, rows 16 to 24, is never written."""
    data, compressors = numbers(dtype), CODECS[codec][zarr_format]
    options: dict[str, Any] = {"compressors": compressors, "fill_value": None}
    if zarr_format == 3:
        serializer: Any = BytesCodec(endian="big" if dtype[0] == ">" else "little")
        if index:
            inner = [serializer, *([] if compressors is None else [compressors])]
            serializer = ShardingCodec(chunk_shape=CHUNK, codecs=inner, index_location=index)  # type: ignore[arg-type]
        options = {"compressors": None if index else compressors, "fill_value": 7, "serializer": serializer}
    array = zarr.create_array(
        str(path),
        shape=SHAPE,
        dtype=data.dtype if zarr_format == 2 else data.dtype.newbyteorder("="),
        chunks=SHARD if index else CHUNK,
        zarr_format=zarr_format,
        **options,
    )
    array[:16], array[24:] = data[:16], data[24:]
    return array


def reader_class(zarr_format: int, index: str, codec: str, dtype: str) -> type | None:
    """The reader that a combination should get; None for Zarr."""
    if codec == "gzip" or index == "start" or (zarr_format == 3 and dtype[0] == ">"):
        return None
    return FlatReader if codec == "none" else CompressedReader


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("zarr_format", "index"), FORMATS)
def test_every_layout_holds_what_zarr_reads_from_it(
    tmp_path: Path, zarr_format: int, index: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype in DTYPES:
        path = tmp_path / f"{dtype}.zarr"
        by_zarr = np.asarray(written(path, zarr_format, index, codec, dtype)[:]).reshape(53, 6)
        assert (by_zarr[16:24] == (0 if zarr_format == 2 else 7)).all()
        rows = ZarrRows(str(path), missing="fill")
        kind = reader_class(zarr_format, index, codec, dtype)
        assert type(rows._direct) is (kind or type(None)), dtype
        if kind is not None:
            forbid_zarr(rows, monkeypatch)
        for start, stop in [(0, 53), (0, 8), (48, 53), (13, 31), (23, 25), (52, 53)]:
            block = rows.read(start, stop)
            assert block.tobytes() == by_zarr[start:stop].astype(rows.dtype).tobytes(), (dtype, start, stop)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kind_of_reader(tmp_path: Path, layout: str) -> None:
    kinds = {**dict.fromkeys(FLAT_LAYOUTS, FlatReader), **dict.fromkeys(COMPRESSED_LAYOUTS, CompressedReader)}
    assert type(open_rows(tmp_path, layout)._direct) is kinds.get(layout, type(None))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("layout", [*FLAT_LAYOUTS, *COMPRESSED_LAYOUTS])
def test_rows_are_read_without_zarr(
    tmp_path: Path, layout: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = open_rows(tmp_path, layout)
    rows.use_threads(threads)
    forbid_zarr(rows, monkeypatch)
    check_ranges(rows)


@pytest.mark.parametrize("layout", OTHER_LAYOUTS)
def test_other_layouts_are_read_by_zarr(tmp_path: Path, layout: str) -> None:
    check_ranges(open_rows(tmp_path, layout))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "flat parts of rows in shards"])
def test_bytes_are_counted_as_they_are_stored(tmp_path: Path, layout: str) -> None:
    rows = open_rows(tmp_path, layout)
    for start in range(0, 1003, 200):
        rows.read(start, min(start + 200, 1003))
    expected = FLAT.nbytes if layout in FLAT_LAYOUTS else stored_bytes(tmp_path)  # padding and indices are not read
    assert rows.bytes_read == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_chunks_that_a_shard_leaves_out_are_filled(
    tmp_path: Path, compressors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = zarr.create_array(
        tmp_path / "y.zarr",
        shape=FLAT.shape,
        dtype=FLAT.dtype,
        chunks=(50, 60),
        shards=(400, 60),
        compressors=compressors,
        fill_value=7,
        config={"write_empty_chunks": False},
    )
    expected = np.full_like(FLAT, 7)
    for start in (300, 0, 850, 500, 100):  # written in any order; rows 50 to 100, 150 to 300 and others never
        array[start : start + 50] = expected[start : start + 50] = FLAT[start : start + 50]
    rows = ZarrRows(str(tmp_path / "y.zarr"), missing="fill")
    forbid_zarr(rows, monkeypatch)
    check_ranges(rows, expected)


@pytest.mark.parametrize("layout", [*FLAT_LAYOUTS, *COMPRESSED_LAYOUTS])
def test_the_switch_leaves_every_layout_to_zarr(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    rows = open_rows(tmp_path, layout)
    assert rows._direct is None
    assert not rows.reads_parts
    check_ranges(rows)
    monkeypatch.setenv(SWITCH, "1")
    assert direct_reader(open_array(rows.url)) is not None


def test_the_switch_is_on_or_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "no")
    with pytest.raises(ValueError, match=r"the environment variable VMFA_DIRECT_READS is 'no', expected 0 or 1"):
        open_rows(tmp_path, "zstd")


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_a_fit_is_the_same_either_way(tmp_path: Path, compressors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw(make_mixture(3, 6, 1), 600, dtype="float32")
    path = write_store(tmp_path / "x.zarr", rows, 100, compressors=compressors)
    options: dict[str, Any] = {"n_components": 3, "n_factors": 1, "n_groups": 2, "max_iter": 2, "tol": 0.0}
    direct = fit_local(path, **options)
    monkeypatch.setenv(SWITCH, "0")
    assert parameters(fit_local(path, **options).model) == parameters(direct.model)


class OwnPipeline(BatchedCodecPipeline):
    """Another class than Zarr's."""


@pytest.mark.parametrize(("layout", "kind"), [("zstd", type(None)), ("files", FlatReader)])
def test_another_codec_pipeline_is_the_choice_of_the_user(tmp_path: Path, layout: str, kind: type) -> None:
    """It decodes what is compressed; uncompressed rows need no codec."""
    register_pipeline(OwnPipeline)
    with zarr.config.set({"codec_pipeline.path": fully_qualified_name(OwnPipeline)}):
        rows = open_rows(tmp_path, layout)
        assert type(rows._direct) is kind
        check_ranges(rows)


def test_a_codec_that_is_derived_from_zarrs_is_left_to_zarr(tmp_path: Path) -> None:
    class Derived(ZstdCodec):
        """Could decode in another way."""

    array = zarr.create_array(tmp_path / "x.zarr", data=FLAT, chunks=(100, 60), compressors=Derived())
    assert direct_reader(array) is None
