"""Files of arrays become the store they should, in one go or in several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import Client

from tests.commands import prepare_arrays
from tests.data_prep.image_files import files_below
from tests.data_prep.table_files import disk_full_after, stored
from vmfa_dask import fit_local
from vmfa_dask.data_prep import shards, splits
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.splits import HashSplit

ROWS = np.random.default_rng(0).normal(10, 3, (1000, 12)).astype(np.float32)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of ten rows, shards of forty."""
    monkeypatch.setattr(shards, "CHUNK_BYTES", 10 * 12 * 4)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 4)


def npy(path: Path, rows: np.ndarray) -> Path:
    np.save(path, rows)
    return path


def hdf5(path: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        for name, rows in arrays.items():
            file[name.replace("__", "/")] = rows
    return path


def parquet(path: Path, columns: dict[str, Any], group: int = 70) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def lists(rows: np.ndarray, fixed: bool) -> pa.Array:
    values = pa.array(rows.ravel())
    if fixed:
        return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    return pa.ListArray.from_arrays(np.arange(len(rows) + 1) * rows.shape[1], values)


@pytest.mark.usefixtures("small_shards")
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path) -> None:
    sources = [
        npy(tmp_path / "a.npy", ROWS[:333]),
        hdf5(tmp_path / "b.h5", only=ROWS[333:400]),
        parquet(tmp_path / "c.parquet", {"v": lists(ROWS[400:600], fixed=True)}),
        parquet(tmp_path / "d.pq", {"v": lists(ROWS[600:800], fixed=False)}),
        parquet(tmp_path / "e.parquet", {f"x{k}": ROWS[800:, k] for k in range(12)}),
    ]
    assert arrays_to_zarr(sources, tmp_path / "x.zarr") == 1000
    found = zarr.open_array(tmp_path / "x.zarr", mode="r")
    np.testing.assert_array_equal(found[:], ROWS)
    assert (found.dtype, found.chunks, found.shards) == (np.dtype("float32"), (10, 12), (40, 12))
    assert found.metadata.dimension_names == ("sample", "feature")
    assert not (tmp_path / "x.zarr.partial").exists()
    assert np.isfinite(fit_local(tmp_path / "x.zarr", n_components=3, n_factors=2, max_iter=2).model.score(ROWS))


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("compress", [False, True])
def test_an_interrupted_call_goes_on(tmp_path: Path, compress: bool) -> None:
    source, target = npy(tmp_path / "a.npy", ROWS), tmp_path / "x.zarr"
    with disk_full_after(7) as first, pytest.raises(OSError, match="the disk is full"):
        arrays_to_zarr([source], target, workers=1, compress=compress)
    assert not target.exists()
    with disk_full_after(1000) as later:
        assert arrays_to_zarr([source], target, workers=2, compress=compress) == 1000
    assert len(first) == 7
    assert {shard.start for shard in first}.isdisjoint(shard.start for shard in later)
    np.testing.assert_array_equal(stored(target), ROWS)


def test_a_partial_store_of_other_sources_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "each", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        arrays_to_zarr([npy(tmp_path / "a.npy", ROWS)], tmp_path / "x.zarr")
    with pytest.raises(ValueError, match=r"x.zarr.partial was begun from other sources or options; remove it"):
        arrays_to_zarr([npy(tmp_path / "b.npy", ROWS[:500])], tmp_path / "x.zarr")


@pytest.mark.usefixtures("small_shards")
def test_workers_of_a_cluster_write(tmp_path: Path, processes: Client) -> None:
    sources = [npy(tmp_path / "a.npy", ROWS[:501]), npy(tmp_path / "b.npy", ROWS[501:])]
    assert arrays_to_zarr(sources, tmp_path / "x.zarr", client=processes) == 1000
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS)
    target = tmp_path / "y.zarr"
    assert prepare_arrays([*map(str, sources), str(target), "--scheduler", processes.scheduler.address]) == 0
    np.testing.assert_array_equal(stored(target), ROWS)


@pytest.mark.usefixtures("small_shards")
def test_a_test_split_follows_from_source_and_row(
    tmp_path: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [npy(tmp_path / "a.npy", ROWS[:333]), parquet(tmp_path / "b.parquet", {"v": lists(ROWS[333:], False)})]
    assert arrays_to_zarr(sources, tmp_path / "x.zarr", test_share=0.2, seed=7) == 1000
    tests = np.concatenate(
        [HashSplit(0.2, 7).are_tests("a.npy", 0, 333), HashSplit(0.2, 7).are_tests("b.parquet", 0, 667)]
    )
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr/test"), ROWS[tests])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr/train"), ROWS[~tests])
    monkeypatch.setattr(splits, "BLOCK", 50)
    assert arrays_to_zarr(sources, tmp_path / "y.zarr", test_share=0.2, seed=7, client=in_process) == 1000
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")
    command = [*map(str, reversed(sources)), str(tmp_path / "z.zarr"), "--test-share", "0.2", "--seed", "7"]
    assert prepare_arrays(command) == 0
    other = stored(tmp_path / "z.zarr/test")
    np.testing.assert_array_equal(np.roll(other, tests[:333].sum(), axis=0), ROWS[tests])


def test_dtypes_are_joined_and_byte_orders_are_native(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 200, (50, 4, 3))
    sources = [npy(tmp_path / "a.npy", numbers.astype(">i2")), npy(tmp_path / "b.npy", numbers.astype("uint8"))]
    arrays_to_zarr(sources, tmp_path / "x.zarr")
    found = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert found.dtype == np.dtype("=i2")
    np.testing.assert_array_equal(found[:], np.concatenate([numbers, numbers]))


def test_choices_in_a_file(tmp_path: Path) -> None:
    several = hdf5(tmp_path / "a.h5", train__x=ROWS, train__y=np.arange(1000))
    with pytest.raises(ValueError, match=r"a.h5 holds the data sets 'train/x', 'train/y'; choose one, found dataset="):
        arrays_to_zarr([several], tmp_path / "x.zarr")
    arrays_to_zarr([several], tmp_path / "x.zarr", dataset="/train/x")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS)
    mixed = parquet(tmp_path / "b.parquet", {"name": ["a"] * 1000, "u": ROWS[:, 0], "w": ROWS[:, 1]})
    with pytest.raises(ValueError, match=r"the columns name \(string\), u \(float\), w \(float\) are neither one"):
        arrays_to_zarr([mixed], tmp_path / "y.zarr")
    arrays_to_zarr([mixed], tmp_path / "y.zarr", columns=["w", "u"])
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr"), ROWS[:, [1, 0]])
    with pytest.raises(ValueError, match=r"has the columns name, u, w; found 'v'"):
        arrays_to_zarr([mixed], tmp_path / "z.zarr", columns=["v"])
    with pytest.raises(ValueError, match=r"dataset='x': .*b.parquet has none to choose from"):
        arrays_to_zarr([mixed], tmp_path / "z.zarr", dataset="x")


def test_one_source_and_one_column_need_no_list(tmp_path: Path) -> None:
    source = parquet(tmp_path / "b.parquet", {"embedding": lists(ROWS, False), "u": ROWS[:, 0]})
    for k, one in enumerate((source, str(source), iter([source]))):
        assert arrays_to_zarr(one, tmp_path / f"{k}.zarr", columns="embedding") == 1000
    with pytest.raises(ValueError, match="sources: found none, expected at least one path"):
        arrays_to_zarr([], tmp_path / "x.zarr")


def test_links_and_pickles_are_not_followed(tmp_path: Path) -> None:
    secret = hdf5(tmp_path / "secret.h5", x=ROWS)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["mine"], file["away"] = ROWS[:5], h5py.ExternalLink(str(secret), "x")
        layout = h5py.VirtualLayout(shape=ROWS.shape, dtype=ROWS.dtype)
        layout[:] = h5py.VirtualSource(str(secret), "x", shape=ROWS.shape)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (4, 4), "uint8", external=[(str(secret), 0, 16)])
    with pytest.raises(ValueError, match=r"data sets 'mine', 'raw', 'virtual'; choose one, found dataset='away'"):
        arrays_to_zarr([tmp_path / "link.h5"], tmp_path / "x.zarr", dataset="away")
    for name in ("virtual", "raw"):
        with pytest.raises(ValueError, match=rf"data set '{name}' keeps its values in other files"):
            arrays_to_zarr([tmp_path / "link.h5"], tmp_path / "x.zarr", dataset=name)
    np.save(tmp_path / "objects.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"objects.npy cannot be read: .*Python objects"):
        arrays_to_zarr([tmp_path / "objects.npy"], tmp_path / "x.zarr")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"v": [[1.0, 2.0], [3.0, 4.0, 5.0]]}, r"row 1 has 3 values in 'v', expected 2"),
        ({"v": [[1.0, 2.0], None]}, r"row 1 has no value in column 'v'"),
        ({"v": [[1.0, 2.0], [3.0, None]]}, r"row 1 has a gap in column 'v'"),
        ({"u": [1.0, 2.0], "w": [3.0, None]}, r"row 1 has no value in column 'w'"),
    ],
)
def test_rows_of_parquet_that_are_not_whole_are_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    source = parquet(tmp_path / "a.parquet", columns, group=1)
    with pytest.raises(ValueError, match=message):
        arrays_to_zarr([source], tmp_path / "x.zarr")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"no array", r"a.npy cannot be read"),
        ("a.h5", b"no file of HDF5", r"a.h5 cannot be read"),
        ("a.parquet", b"no file of Parquet", r"a.parquet cannot be read"),
        ("a.csv", b"1,2", r"expected a file that ends with one of .npy, .h5"),
    ],
)
def test_damaged_and_unknown_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        arrays_to_zarr([tmp_path / name], tmp_path / "x.zarr")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rows_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    a, b = npy(tmp_path / "a.npy", ROWS), npy(tmp_path / "b.npy", ROWS[:, :5])
    with pytest.raises(ValueError, match=r"b.npy: rows of shape \(5,\), expected \(12,\) as in .*a.npy"):
        arrays_to_zarr([a, b], tmp_path / "x.zarr")
    with pytest.raises(ValueError, match=r"c.npy: dtype complex64, expected an integer or a float"):
        arrays_to_zarr([npy(tmp_path / "c.npy", ROWS.astype("complex64"))], tmp_path / "x.zarr")
    with pytest.raises(ValueError, match=r"d.npy: shape \(7,\), expected \(rows, features...\)"):
        arrays_to_zarr([npy(tmp_path / "d.npy", np.arange(7))], tmp_path / "x.zarr")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parquet(tmp_path / "a.parquet", {"u": ROWS[:, 0], "w": ROWS[:, 1], "name": ["x"] * 1000})
    arguments = [str(source), str(tmp_path / "x.zarr"), "--columns", "u,w", "--compress"]
    assert prepare_arrays(arguments) == 0
    assert "x.zarr: 1000 rows" in capsys.readouterr().out
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS[:, :2])
    assert prepare_arrays(arguments) == 1
    assert "x.zarr exists; remove it first" in capsys.readouterr().err
    assert prepare_arrays([str(tmp_path / "none.npy"), str(tmp_path / "y.zarr")]) == 2
    assert "none.npy does not exist" in capsys.readouterr().err
