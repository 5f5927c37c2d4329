"""H10: joins that may lose digits are told, values that would be rounded are refused, and a dtype can be stated."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import prepare_arrays
from tests.data_prep.table_files import FORMATS, stored, write_rows
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr

DTYPES = [np.dtype(d) for d in "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8".split()]
LOSSY = {
    frozenset(pair)
    for pair in [("int64", "uint64"), ("uint64", "int8"), ("uint64", "int16"), ("uint64", "int32")]
    + [(i, f) for i in ("int64", "uint64") for f in ("float16", "float32", "float64")]
}
BIG = 2**53 + 1


def small(dtype: np.dtype[Any]) -> np.ndarray:
    return np.arange(12).reshape(4, 3).astype(dtype)


@pytest.mark.parametrize("pair", list(itertools.combinations(DTYPES, 2)), ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_joins_hold_every_value_or_are_told(
    tmp_path: Path, pair: tuple[np.dtype[Any], np.dtype[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    sources = [write_rows(tmp_path, f"{k}", "npy", small(dtype)) for k, dtype in enumerate(pair)]
    arrays_to_zarr(sources, tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.concatenate([small(np.dtype("f8"))] * 2))
    assert stored(tmp_path / "x.zarr").dtype == np.result_type(*pair)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert bool(told) == (frozenset(map(str, pair)) in LOSSY)
    for message in told:
        assert "0.npy" in message
        assert "1.npy" in message
    # Extreme values are kept exactly, or end the call.
    limits = [np.finfo(d) if d.kind == "f" else np.iinfo(d) for d in pair]
    extreme = [np.array([[limit.min, limit.max]], dtype) for limit, dtype in zip(limits, pair, strict=True)]
    sources = [write_rows(tmp_path, f"{k}", "npy", rows) for k, rows in enumerate(extreme)]
    if told:
        with pytest.raises(ValueError, match=r"\.npy: row 0 holds .*, which float64 does not hold exactly"):
            arrays_to_zarr(sources, tmp_path / "y.zarr")
    else:
        arrays_to_zarr(sources, tmp_path / "y.zarr")
        found = stored(tmp_path / "y.zarr").tolist()
        assert found == [[value.item() for value in rows[0]] for rows in extreme]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("pair", [("int64", "float32"), ("uint64", "int64"), ("uint64", "int8"), ("int64", "float16")])
@pytest.mark.parametrize("swapped", [False, True])
def test_values_that_would_be_rounded_are_refused(
    tmp_path: Path, file_format: str, pair: tuple[str, str], swapped: bool
) -> None:
    rows = small(np.dtype(pair[0]))
    rows[2, 1] = BIG
    sources = [write_rows(tmp_path, "a", file_format, rows), write_rows(tmp_path, "b", "npy", small(np.dtype(pair[1])))]
    sources = sources[::-1] if swapped else sources
    with pytest.raises(ValueError, match=rf"a\..*: row 2 holds {BIG}, which .* joined with .*b.npy \({pair[1]}\)"):
        arrays_to_zarr(sources, tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()
    arrays_to_zarr(sources, tmp_path / "y.zarr", dtype="float64")
    assert BIG - 1 in stored(tmp_path / "y.zarr")
    arrays_to_zarr(sources, tmp_path / "z.zarr", dtype="int64")
    assert BIG in stored(tmp_path / "z.zarr")


def test_columns_of_one_file_are_joined_alike(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = {"id": np.array([1, BIG]), "u": np.array([0.5, 1.5])}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"column 'id': row 1 holds {BIG}, .* joined with .*a.parquet, column 'u'"):
        arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "x.zarr")
    assert "column 'id' (int64) and" in caplog.text
    pq.write_table(pa.table(columns | {"id": [1, 2]}), tmp_path / "a.parquet")
    arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "y.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr"), [[1, 0.5], [2, 1.5]])


@pytest.mark.parametrize(
    ("dtype", "values", "stated", "outcome"),
    [
        ("float64", [0.1, 2.0], "float32", np.float32([0.1, 2.0])),
        ("int64", [BIG, 2], "float64", np.float64([BIG, 2])),
        ("uint64", [2**64 - 1, 2], "float32", np.float32([2**64 - 1, 2])),
        ("float32", [3.0, 255.0], "uint8", np.uint8([3, 255])),
        ("int64", [-128, 127], "int8", np.int8([-128, 127])),
        ("bool", [True, False], "uint8", np.uint8([1, 0])),
        ("longdouble", [0.5, 2.0], "float64", np.float64([0.5, 2.0])),
        ("float64", [1.0, 1e39], "float32", "holds 1e\\+39, which float32 does not hold"),
        ("float32", [1.0, 70_000.0], "float16", "holds 70000.0, which float16 does not hold"),
        ("int32", [1, 70_000], "float16", "holds 70000, which float16 does not hold"),
        ("int16", [1, 300], "uint8", "holds 300, which uint8 does not hold"),
        ("int16", [1, -1], "uint64", "holds -1, which uint64 does not hold"),
        ("uint64", [1, 2**63], "int64", "holds 9223372036854775808, which int64 does not hold"),
        ("float64", [1.0, 2.0**63], "int64", "which int64 does not hold"),
        ("float64", [1.0, 2.5], "int32", "holds 2.5, which int32 does not hold"),
        ("float32", [1.0, np.nan], "uint8", "holds nan, which uint8 does not hold"),
        ("float32", [1.0, -np.inf], "int64", "holds -inf, which int64 does not hold"),
    ],
)
def test_a_stated_dtype_rounds_and_never_wraps(
    tmp_path: Path, dtype: str, values: list[Any], stated: str, outcome: Any
) -> None:
    source = write_rows(tmp_path, "a", "npy", np.array(values, dtype)[:, np.newaxis])
    if isinstance(outcome, str):
        with pytest.raises(ValueError, match=rf"a.npy: row 1 .*{outcome}; state a dtype that does"):
            arrays_to_zarr([source], tmp_path / "x.zarr", dtype=stated)
    else:
        arrays_to_zarr([source], tmp_path / "x.zarr", dtype=stated)
        found = stored(tmp_path / "x.zarr")
        assert found.dtype == np.dtype(stated)
        np.testing.assert_array_equal(found[:, 0], outcome)


def test_the_command_states_a_dtype(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = small(np.dtype("int64")) + BIG
    sources = [write_rows(tmp_path, "a", "npy", rows), write_rows(tmp_path, "b", "npy", small(np.dtype("float32")))]
    assert prepare_arrays([*map(str, sources), str(tmp_path / "x.zarr")]) == 1
    assert "State dtype='float64' (--dtype float64) to round" in capsys.readouterr().err
    assert prepare_arrays([*map(str, sources), str(tmp_path / "y.zarr"), "--dtype", "float64"]) == 0
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr")[:4], rows.astype("float64"))
    for other in ("complex64", "object", "bool", "nonsense"):
        assert prepare_arrays([*map(str, sources), str(tmp_path / "z.zarr"), "--dtype", other]) == 1
        assert f"dtype='{other}': expected an integer or a float of at most 64 bits" in capsys.readouterr().err
