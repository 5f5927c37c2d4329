"""Zarr arrays as sources of rows: versions, shards, short last chunks, a bounded cache, errors that name the place."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.samples import images, write_store
from vmfa_dask import addresses
from vmfa_dask.store.direct.compressed import CompressedReader
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.opening import open_array
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.store.version_store import ZarrStorage

DATA = images(1003, (4, 5, 3))
FLAT = DATA.reshape(1003, -1)
LAYOUTS = {
    "v3": {"chunks": (100, 4, 5, 3)},
    "v2": {"chunks": (100, 4, 5, 3), "zarr_format": 2},
    "inner chunks": {"chunks": (100, 2, 5, 1)},
    "sharded": {"chunks": (50, 4, 5, 3), "shards": (200, 4, 5, 3)},
    "uncompressed": {"chunks": (1003, 4, 5, 3), "compressors": None},
    "v2 Fortran": {"chunks": (100, 4, 5, 3), "zarr_format": 2, "order": "F"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path: Path, layout: str) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", DATA, **LAYOUTS[layout]))
    assert (rows.n_rows, rows.feature_shape, rows.dtype) == (1003, (4, 5, 3), np.uint8)
    assert rows.chunk_rows == (LAYOUTS[layout].get("shards") or LAYOUTS[layout]["chunks"])[0]
    for start, stop in [(0, 1003), (0, 1), (1002, 1003), (150, 250), (1000, 1003)]:
        block = rows.read(start, stop)
        np.testing.assert_array_equal(block, FLAT[start:stop])
        assert block.flags.c_contiguous
        assert not block.flags.writeable


@pytest.mark.parametrize("stored", [">i2", ">f4", "float16", "int64"])
def test_other_types_keep_their_values(tmp_path: Path, stored: str) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT.astype(stored), 100, zarr_format=2))
    np.testing.assert_array_equal(rows.read(90, 210), FLAT[90:210])


def test_members_of_groups(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("images", data=DATA, chunks=(100, 4, 5, 3))
    assert ZarrRows(str(tmp_path / "g")).n_rows == 1003  # the only one
    group.create_array("labels", data=np.arange(1003), chunks=(1003,))
    assert ZarrRows(str(tmp_path / "g"), "images").feature_shape == (4, 5, 3)
    for name in (None, "pictures"):
        with pytest.raises(ValueError, match=r"'images', 'labels'; choose one by the argument array="):
            ZarrRows(str(tmp_path / "g"), name)
    with pytest.raises(ValueError, match=r"labels.* has no features"):
        ZarrRows(str(tmp_path / "g"), "labels")
    with pytest.raises(ValueError, match="is an array itself"):
        ZarrRows(str(tmp_path / "g" / "images"), "images")


def test_an_empty_group_and_an_empty_array(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "g", mode="w")
    with pytest.raises(ValueError, match="arrays none"):
        open_array(str(tmp_path / "g"))
    zarr.create_array(str(tmp_path / "e"), shape=(0, 3), dtype="f4", chunks=(1, 3))
    with pytest.raises(ValueError, match=r"shape \(0, 3\) holds no values"):
        ZarrRows(str(tmp_path / "e"))


def test_the_cache_is_bounded_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT, 100), cache_bytes=200 * 60)
    reads = []
    plain = CompressedReader.read
    monkeypatch.setattr(CompressedReader, "read", lambda self, *part: reads.append(part) or plain(self, *part))
    for _ in range(3):
        for start in range(0, 500, 100):
            np.testing.assert_array_equal(rows.read(start, start + 100), FLAT[start : start + 100])
    assert len(reads) == 5 + 3 + 3  # two of the five ranges fit


def test_without_a_cache_nothing_is_kept(tmp_path: Path) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT, 100))
    assert rows.read(0, 100) is not rows.read(0, 100)


def test_travelling_opens_again(tmp_path: Path) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT, 100), cache_bytes=10**6)
    rows.read(0, 500)
    packed = pickle.dumps(rows)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed).read(100, 200), FLAT[100:200])


def test_threads_read_side_by_side(tmp_path: Path) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT, 50), cache_bytes=10**6)
    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(lambda k: rows.read(k * 50, min(k * 50 + 50, 1003)), list(range(21)) * 4))
    for k, block in enumerate(blocks):
        np.testing.assert_array_equal(block, FLAT[k % 21 * 50 : k % 21 * 50 + 50])


def test_a_broken_chunk_is_named(tmp_path: Path) -> None:
    path = write_store(tmp_path / "x.zarr", FLAT, 100)
    chunk = tmp_path / "x.zarr" / "c" / "7" / "0"
    chunk.write_bytes(chunk.read_bytes()[: chunk.stat().st_size // 2])
    rows = ZarrRows(path)
    rows.read(600, 700)
    with pytest.raises(OSError, match=r"x\.zarr: rows 650:750 cannot be read: chunk c/7/0: "):
        rows.read(650, 750)


def test_places_of_rows(tmp_path: Path) -> None:
    rows = ZarrRows(write_store(tmp_path / "x.zarr", FLAT, 100))
    assert rows.describe(712).endswith("x.zarr: row 712 (chunk 7)")


def test_consolidated_metadata_makes_no_difference(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g", mode="w", zarr_format=2)
    group.create_array("x", data=FLAT, chunks=(100, 60))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(str(tmp_path / "g"))
    np.testing.assert_array_equal(ZarrRows(str(tmp_path / "g")).read(10, 20), FLAT[10:20])


def test_storage_of_versions(tmp_path: Path) -> None:
    storage = ZarrStorage(FolderPlace(str(tmp_path / "run")))
    arrays = {
        "weights": np.linspace(0, 1, 5),
        "loadings": np.zeros((5, 0, 3), np.float32),
        "ids": np.arange(6, dtype=np.int32),
    }
    storage.write(addresses.Parameters(3, 1), arrays)
    elsewhere = ZarrStorage(FolderPlace(str(tmp_path / "run")))
    found = elsewhere.read(addresses.Parameters(3, 1))
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert not found[name].flags.writeable
    absent = (addresses.Parameters(3, 0), addresses.Parameters(2, 1), addresses.Graph(3, 1))
    for missing in absent:
        with pytest.raises(KeyError):
            storage.read(missing)
    storage.discard("parameters", 3)
    storage.discard("parameters", 4)
    with pytest.raises(KeyError):
        elsewhere.read(addresses.Parameters(3, 1))


def test_versions_are_written_once_and_whole(tmp_path: Path) -> None:
    storage = ZarrStorage(FolderPlace(str(tmp_path / "run")))
    neighbors = np.arange(1000, dtype=np.int32).reshape(100, 10)
    with ThreadPoolExecutor(6) as pool:  # the same task, running several times at once
        list(pool.map(lambda _: storage.write(addresses.Graph(0, 0), {"neighbors": neighbors}), range(6)))
    np.testing.assert_array_equal(storage.read(addresses.Graph(0, 0))["neighbors"], neighbors)
    storage.write(addresses.Graph(0, 0), {"neighbors": np.zeros_like(neighbors)})
    np.testing.assert_array_equal(storage.read(addresses.Graph(0, 0))["neighbors"], neighbors)
    version = tmp_path / "run" / "graph" / "000000"
    assert [path.name for path in version.iterdir() if path.is_dir()] == ["components-00000"]
