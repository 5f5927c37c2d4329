"""Files of every format, dtype and byte order give the rows they hold, or say which value cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from tests.commands import prepare_arrays
from tests.data_prep.image_files import files_below
from tests.data_prep.table_files import FORMATS, stored, write_rows
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.splits import HashSplit

DTYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
NUMBERS = np.random.default_rng(0).integers(0, 120, (50, 4))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_those_of_the_file(tmp_path: Path, dtype: str, order: str, file_format: str) -> None:
    rows = NUMBERS.astype(order + dtype)
    if rows.dtype.kind == "f":
        rows /= rows.dtype.type(7)
    for compress in (False, True):
        target = tmp_path / f"{compress}.zarr"
        arrays_to_zarr([write_rows(tmp_path, "a", file_format, rows)], target, compress=compress)
        assert stored(target).dtype == np.dtype(f"={dtype}")
        np.testing.assert_array_equal(stored(target), rows)
    arrays_to_zarr([tmp_path / next(tmp_path.glob("a.*")).name], tmp_path / "s.zarr", test_share=0.3)
    name = next(tmp_path.glob("a.*")).name
    tests = HashSplit(0.3).are_tests(name, 0, 50)
    np.testing.assert_array_equal(stored(tmp_path / "s.zarr/test"), rows[tests])


@pytest.mark.parametrize("dtype", ["u1", ">f4", "f8"])
@pytest.mark.parametrize("shape", [(50, 4), (50, 2, 2), (2, 4)])
def test_layouts_of_npy_are_alike(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    rows = np.resize(NUMBERS, shape).astype(dtype)
    for name, array in {"c": np.ascontiguousarray(rows), "f": np.asfortranarray(rows)}.items():
        np.save(tmp_path / f"{name}.npy", array)
        arrays_to_zarr([tmp_path / f"{name}.npy"], tmp_path / f"{name}.zarr")
        np.testing.assert_array_equal(stored(tmp_path / f"{name}.zarr"), rows)
    assert (tmp_path / "c.zarr/c").exists()
    shards = [files_below(tmp_path / f"{name}.zarr/c") for name in "cf"]
    assert shards[0] == shards[1]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_no_fit_takes_are_named(tmp_path: Path, file_format: str, dtype: str, value: float) -> None:
    rows = NUMBERS.astype(dtype)
    rows[[30, 41, 41], [2, 0, 1]] = value
    source = write_rows(tmp_path, "a", file_format, rows)
    feature = "'x2'" if file_format == "parquet" else "feature 2"
    message = rf"a\.\w+: row 30 holds {value} in {feature} \(2 of the rows 0 to 49 hold NaN or infinity\)"
    with pytest.raises(ValueError, match=message):
        arrays_to_zarr([source], tmp_path / "x.zarr")
    assert prepare_arrays([str(source), str(tmp_path / "y.zarr"), "--allow-nonfinite"]) == 0
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr"), rows)


def test_rows_are_counted_in_their_own_file(tmp_path: Path) -> None:
    rows = NUMBERS.astype("f4")
    damaged = rows.copy()
    damaged[5] = np.nan
    sources = [write_rows(tmp_path, "a", "npy", rows), write_rows(tmp_path, "b", "npy", damaged)]
    with pytest.raises(ValueError, match=r"b.npy: row 5 holds nan in feature 0"):
        arrays_to_zarr(sources, tmp_path / "x.zarr")


OTHERS = {
    "npy": ("bool", "complex64", "M8[s]", "S3", "U3"),
    "h5": ("bool", "complex64", "S3"),
    "parquet": ("bool", "M8[s]", "S3", "U3"),
    "lists": ("bool", "M8[s]", "S3", "U3"),
}


@pytest.mark.parametrize(("file_format", "dtype"), [(name, dtype) for name in FORMATS for dtype in OTHERS[name]])
def test_other_dtypes_are_named(tmp_path: Path, file_format: str, dtype: str) -> None:
    source = write_rows(tmp_path, "a", file_format, (NUMBERS > 60).astype("int64").astype(dtype))
    expected = r"a\.\w+(, column 'x0')?: (dtype .*, expected an integer|the columns .* neither)"
    with pytest.raises(ValueError, match=expected):
        arrays_to_zarr([source], tmp_path / "x.zarr")
    if dtype == "bool":
        with pytest.raises(ValueError, match=r"dtype='uint8' \(--dtype uint8\) converts it"):
            arrays_to_zarr([source], tmp_path / "x.zarr")
        arrays_to_zarr([source], tmp_path / "y.zarr", dtype="uint8")
        np.testing.assert_array_equal(stored(tmp_path / "y.zarr"), NUMBERS > 60)


@pytest.mark.parametrize("kind", ["int64", "uint8", "float32", "bool"])
@pytest.mark.parametrize("statistics", [True, False])
def test_columns_with_gaps_are_named_with_their_number(tmp_path: Path, kind: str, statistics: bool) -> None:
    values: list[Any] = [1] * 60
    values[33] = values[34] = values[58] = None
    columns = {"u": pa.array([1.0] * 60), "w": pa.array(values).cast(kind)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=20, write_statistics=statistics)
    count = "3 of 60 rows have none" if statistics else "3 of the rows 0 to 59 have none"
    with pytest.raises(ValueError, match=rf"a.parquet: row 33 has no value in column 'w' \({count}\)"):
        arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "x.zarr", dtype="float32")
    assert (tmp_path / "x.zarr.partial").exists() != statistics  # the footer is enough
    arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "y.zarr", columns=["u"])


def test_columns_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    columns = {"u": [1.0], "when": pa.array([0], pa.timestamp("s")), "kind": pa.array(["a"]).dictionary_encode()}
    pq.write_table(pa.table(columns | {"v": [[1.0]]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet: the columns u \(double\), .*, because of when, kind, v; choose"):
        arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "x.zarr")


def test_conventions_for_missing_and_packed_values_in_hdf5(tmp_path: Path) -> None:
    def file(name: str, rows: np.ndarray, **attributes: Any) -> Path:
        with h5py.File(tmp_path / name, "w") as written:
            written["t"] = rows
            written["t"].attrs.update(attributes)
        return tmp_path / name

    rows = NUMBERS.astype("i2")
    rows[[7, 9], 1] = -9999
    for attributes in ({"_FillValue": np.int16(-9999)}, {"missing_value": np.array([-9999], "i2")}):
        with pytest.raises(ValueError, match=r"a.h5: row 7 holds -9999, which data set 't' states for .* \(2 of"):
            arrays_to_zarr([file("a.h5", rows, **attributes)], tmp_path / "x.zarr")
    for attributes in ({"scale_factor": 0.01}, {"add_offset": np.array([273.15])}):
        with pytest.raises(ValueError, match=r"b.h5: data set 't' holds packed values \((scale_factor|add_offset)="):
            arrays_to_zarr([file("b.h5", rows, **attributes)], tmp_path / "y.zarr")
    harmless = {"scale_factor": 1.0, "add_offset": 0.0, "_FillValue": np.nan, "missing_value": "none"}
    arrays_to_zarr([file("c.h5", NUMBERS.astype("f4"), **harmless)], tmp_path / "z.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "z.zarr"), NUMBERS)


def test_files_that_hold_no_array_are_named(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.savez(file, x=NUMBERS)
    with pytest.raises(ValueError, match=r"a.npy cannot be read: "):
        arrays_to_zarr([tmp_path / "a.npy"], tmp_path / "x.zarr")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["t"] = h5py.Empty("f4")
    with pytest.raises(ValueError, match=r"b.h5: shape \(\), expected \(rows, features...\)"):
        arrays_to_zarr([tmp_path / "b.h5"], tmp_path / "x.zarr")


def test_other_options_are_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_rows(tmp_path, "a", "npy", NUMBERS.astype("f4"))
    options: list[dict[str, Any]] = [{}, {"dtype": "f4"}, {"dtype": "f8"}, {"allow_nonfinite": True}]
    for k, begun in enumerate(options):
        target = tmp_path / f"{k}.zarr"
        with monkeypatch.context() as patched:
            patched.setattr("vmfa_dask.data_prep.shards.each", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                arrays_to_zarr([source], target, **begun)
        for other in options:
            if other != begun:
                with pytest.raises(ValueError, match="begun from other sources or options"):
                    arrays_to_zarr([source], target, **other)
        assert arrays_to_zarr([source], target, **begun) == 50
        assert zarr.open_array(target, mode="r").dtype == np.dtype(begun.get("dtype", "f4"))
