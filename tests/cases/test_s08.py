"""S08: the index of a frame is no feature of a Parquet file unless it is asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from tests.commands import prepare_arrays
from tests.data_prep.table_files import stored
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr

X = np.random.default_rng(0).normal(size=(20, 2))
FRAME = pd.DataFrame(X, columns=["u", "w"])
KEPT = X[:, 0] > 0

FRAMES = {
    "range": (FRAME, X, []),
    "stepped": (FRAME[::2], X[::2], []),
    "filtered": (FRAME[KEPT], X[KEPT], ["__index_level_0__"]),
    "shuffled": (FRAME.sample(frac=1, random_state=0), None, ["__index_level_0__"]),
    "named": (FRAME.set_index(pd.Index(range(100, 120), name="id")[::-1]), X, ["id"]),
    "float index": (FRAME.set_index(pd.Index(X[:, 0], name="time")), X, ["time"]),
    "text index": (FRAME.set_index(pd.Index([f"r{k}" for k in range(20)], name="name")), X, ["name"]),
    "dates": (FRAME.set_index(pd.date_range("2020-01-01", periods=20, name="day")), X, ["day"]),
    "levels": (FRAME.set_index([pd.Index([1, 2] * 10, name="a"), pd.Index(range(20))]), X, ["a", "__index_level_1__"]),
    "name of a column": (FRAME.set_index(pd.Index(range(5, 25), name="u")), X, ["__index_level_0__"]),
}


def write(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    frame.to_parquet(path, **options)
    return path


@pytest.mark.parametrize("name", FRAMES)
def test_the_index_is_left_out(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    frame, expected, left_out = FRAMES[name]
    # What a filter leaves may still be a range; an index that is written has to be one column.
    source = write(frame, tmp_path / "a.parquet", index=True if left_out else None)
    with caplog.at_level(logging.INFO, "vmfa_dask.data_prep"):
        arrays_to_zarr([source], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), frame.to_numpy() if expected is None else expected)
    assert zarr.open_array(tmp_path / "x.zarr", mode="r").attrs["columns"] == ["u", "w"]
    told = [record.getMessage() for record in caplog.records if record.name == "vmfa_dask.data_prep.arrays_to_zarr"]
    assert told[0] == f"{source}: columns u, w"
    names = ", ".join(f"{column} (the index of a frame)" for column in left_out)
    assert told[1:] == ([f"{source}: left out {names}"] if left_out else [])


def test_an_index_that_is_asked_for_is_a_feature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(FRAMES["filtered"][0], tmp_path / "a.parquet", index=True)
    assert prepare_arrays([str(source), str(tmp_path / "x.zarr"), "--columns", "__index_level_0__,w"]) == 0
    assert capsys.readouterr().out.endswith("rows, columns __index_level_0__, w\n")
    np.testing.assert_array_equal(
        stored(tmp_path / "x.zarr"), np.column_stack([np.flatnonzero(KEPT), X[KEPT, 1]])
    )


def test_metadata_that_other_programs_drop_is_not_needed(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(FRAMES["filtered"][0], preserve_index=True).replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "a.parquet")
    arrays_to_zarr([tmp_path / "a.parquet"], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), X[KEPT])


def test_index_columns_of_several_files_may_differ(tmp_path: Path) -> None:
    names = ["range", "filtered", "named", "text index", "levels"]
    sources = [write(FRAMES[n][0], tmp_path / f"{n}.parquet", index=True if FRAMES[n][2] else None) for n in names]
    arrays_to_zarr(sources, tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.concatenate([FRAMES[n][1] for n in names]))


def test_embeddings_beside_an_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"embedding": list(X.astype("float32"))})[KEPT]
    arrays_to_zarr([write(frame, tmp_path / "a.parquet", index=True)], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), X[KEPT].astype("float32"))


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    sources = [write(FRAME, tmp_path / "a.parquet"), write(FRAME[["w", "u"]], tmp_path / "b.parquet")]
    arrays_to_zarr(sources, tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.concatenate([X, X]))
    for frame in (FRAME.rename(columns={"w": "v"}), FRAME.assign(v=1.0)):
        other = write(frame, tmp_path / "c.parquet")
        with pytest.raises(ValueError, match=r"c.parquet has v, which .*a.parquet lacks.*; choose columns"):
            arrays_to_zarr([sources[0], other], tmp_path / "y.zarr")
    arrays_to_zarr([sources[0], other], tmp_path / "y.zarr", columns=["u"])
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr"), np.concatenate([X, X])[:, :1])


def test_files_without_columns_of_their_own_are_named(tmp_path: Path) -> None:
    source = write(FRAME[[]].set_index(pd.Index(range(3, 23), name="id")), tmp_path / "a.parquet", index=True)
    with pytest.raises(ValueError, match=r"a.parquet has no columns but id, the index of a frame; choose columns"):
        arrays_to_zarr([source], tmp_path / "x.zarr")
    source = write(FRAME[[]], tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet has no columns$"):
        arrays_to_zarr([source], tmp_path / "x.zarr")
    pq.write_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["u", "u"]), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b.parquet has several columns named 'u'"):
        arrays_to_zarr([tmp_path / "b.parquet"], tmp_path / "x.zarr")


def test_other_columns_are_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(FRAME.assign(v=1.0), tmp_path / "a.parquet")
    with monkeypatch.context() as patched:
        patched.setattr("vmfa_dask.data_prep.shards.each", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            arrays_to_zarr([source], tmp_path / "x.zarr", columns=["u", "w"])
    with pytest.raises(ValueError, match="begun from other sources or options"):
        arrays_to_zarr([source], tmp_path / "x.zarr", columns=["u", "v"])
    arrays_to_zarr([source], tmp_path / "x.zarr", columns=["u", "w"])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), X)
