"""Rows come through the gate as native numbers, whatever they are held in; paths in all their forms lead to them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.forms import every_form, stores
from tests.samples import draw, make_mixture, write_store
from vmfa_dask.apply.model_rows import as_source
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.service.sources import opened_rows
from vmfa_dask.store.gate import admit
from vmfa_dask.store.places import locate
from vmfa_dask.store.rows import ZarrRows

MODEL = make_mixture(2, 4, 1)
DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def table(dtype: str) -> np.ndarray:
    """23 rows of four features that use all bytes of their dtype."""
    rng = np.random.default_rng(0)
    if dtype[0] == "f":
        return (rng.normal(size=(23, 4)) * 100).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, (23, 4), dtype, endpoint=True)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_form_gives_the_native_rows(tmp_path: Path, dtype: str, order: str) -> None:
    native = table(dtype)
    expected = native.astype("f4") if dtype == "f2" else native
    for name, data, options in every_form(tmp_path, native.astype(order + dtype)):
        with opened_rows(data, **options) as fitted:
            for rows in (fitted, as_source(MODEL, data, **options)):
                assert (rows.n_rows, rows.feature_shape) == (23, (4,)), name
                assert rows.dtype.isnative, name
                for start, stop in ((0, 23), (3, 4), (5, 16), (22, 23)):
                    block = rows.read(start, stop)
                    assert block.dtype == rows.dtype == expected.dtype, name
                    assert block.flags.c_contiguous and not block.flags.writeable, name  # noqa: PT018
                    assert block.tobytes() == expected[start:stop].tobytes(), name


@pytest.mark.parametrize("dtype", [">f8", ">i2", "<f2", ">f2"])
def test_stores_that_are_opened_again_give_the_same(tmp_path: Path, dtype: str) -> None:
    native = table(dtype[1:])
    for _, path in stores(tmp_path, native.astype(dtype)):
        again = pickle.loads(pickle.dumps(ZarrRows(path, cache_bytes=10**6)))
        for _ in range(2):  # from the store, then from the cache
            np.testing.assert_array_equal(again.read(2, 20), native[2:20])
            assert again.read(2, 20).dtype.isnative


def test_other_names_of_a_dtype_are_the_dtype() -> None:
    rows = ArrayRows(np.ones((3, 2), np.longlong))
    assert rows.dtype.name == rows.read(0, 3).dtype.name == "int64"


def test_a_memory_map_is_not_taken_into_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.ones((1000, 4), ">f8")))
    found = admit("data", tmp_path / "x.npy")
    mapped = found.values
    while mapped.base is not None and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    assert isinstance(mapped, np.memmap)
    assert ArrayRows(found.values)._rows is found.values


def test_paths_in_all_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rows = draw(MODEL, 20)
    write_store(tmp_path / "a b.zarr", rows, 7)
    np.save(tmp_path / "a b.npy", rows)

    class Own(os.PathLike[str]):
        def __fspath__(self) -> str:
            return "~/a b.zarr"

    places: list[Any] = ["a b.zarr", "~/a b.zarr", Path("~/a b.zarr"), Own(), f"{tmp_path}/a b.zarr/"]
    places += [f"file://{tmp_path}/a%20b.zarr", f"file://localhost{tmp_path}/a b.zarr/"]
    places += ["~/a b.npy", "./a b.npy", f"file://{tmp_path}/a b.npy"]
    for place in places:
        with opened_rows(place) as fitted:
            for found in (fitted, as_source(MODEL, place)):
                np.testing.assert_array_equal(found.read(0, 20), rows)
                assert found.describe(3).startswith(f"{tmp_path}/a b.")
    with pytest.raises(ValueError, match=r"file://other/x: a file URL of the machine 'other'"):
        admit("data", "file://other/x")
    assert locate("s3://bucket/x/") == "s3://bucket/x"


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "o.npy", np.array([[{}]]), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.ones((3, 4)))
    for name, message in {
        "x.csv": "a file, and neither a zip archive of a Zarr store nor a .npy file",
        "cut.npy": "not readable as a .npy file",
        "text.npy": "not readable as a .npy file",
        "o.npy": "not readable as a .npy file: .*Python objects",
        "x.npz": r"an archive of arrays of NumPy; .*numpy\.load\(path\)\[name\]",
    }.items():
        for read in (lambda path: as_source(MODEL, path), lambda path: opened_rows(path).__enter__()):
            with pytest.raises(ValueError, match=f"{name}: {message}"):
                read(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"none\.npy: no Zarr array"):
        as_source(MODEL, tmp_path / "none.npy")


@pytest.mark.parametrize(
    "dtype", ["bool", "complex64", "g", "S3", "U3", "object", "M8[s]", "m8[s]", [("a", "f4"), ("b", "f4")]]
)
def test_what_is_no_number_is_refused(tmp_path: Path, dtype: Any) -> None:
    rows = np.zeros((3, 4), dtype)
    forms: list[Any] = [rows, np.asfortranarray(rows)]
    if np.dtype(dtype).kind in "bc":
        forms += [zarr.create_array(tmp_path / f"x{f}", data=rows, zarr_format=f) for f in (2, 3)]
    for data in forms:
        for read in (lambda data: as_source(MODEL, data), lambda data: opened_rows(data).__enter__()):
            with pytest.raises(ValueError, match=r"dtype .* is not supported; expected an integer or a float"):
                read(data)


def test_an_array_is_not_chosen_inside_another_one(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 4)))
    path = write_store(tmp_path / "x.zarr", np.ones((3, 4)), 3)
    for data in (np.ones((3, 4)), [[1.0] * 4], tmp_path / "x.npy", path, zarr.open_array(path)):
        with pytest.raises(ValueError, match=r"array='a'"):
            as_source(MODEL, data, array="a")
