"""L07: folders of parts are read in the order of their names."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from tests.commands import prepare_arrays
from tests.data_prep.image_files import files_below
from tests.data_prep.table_files import FORMATS, disk_full_after, stored, write_rows
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr

ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def parts(folder: Path, names: list[str], file_format: str = "parquet") -> Path:
    """A folder of as many parts of ROWS, the first name holding the first rows; written in another order."""
    pieces = list(zip(names, np.array_split(ROWS, len(names)), strict=True))
    for name, piece in pieces[::2] + pieces[1::2]:
        write_rows((folder / name).parent, Path(name).name, file_format, piece)
    return folder


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    "names",
    [
        [f"part.{k}" for k in range(12)],
        [f"part-{k:05d}-9f3c.snappy" for k in range(12)],
        [f"{k}" for k in (1, 2, 10, 20, 100)],
        ["a", "b", "c2", "c10"],
    ],
)
def test_parts_are_read_in_order(tmp_path: Path, file_format: str, names: list[str]) -> None:
    folder = parts(tmp_path / "in.parquet", names, file_format)
    for beside in ("_SUCCESS", "_metadata", ".part-0.parquet.crc", "part-0.crc", ".DS_Store", "_temporary/0/x.npy"):
        (folder / beside).parent.mkdir(parents=True, exist_ok=True)
        (folder / beside).write_bytes(b"no rows")
    assert prepare_arrays([str(folder), str(tmp_path / "x.zarr")]) == 0
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS)


def test_nested_folders_are_read_and_their_keys_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"year={y}/_month={m}/part.{k}" for y in (2019, 2020) for m in (9, 10) for k in (0, 1)]
    folder = parts(tmp_path / "in", names)
    with caplog.at_level(logging.INFO, "vmfa_dask.data_prep"):
        arrays_to_zarr([folder], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS)
    assert "part.0.parquet and 7 more: columns x0, x1, x2\n" in caplog.text
    assert "and 7 more: left out year (in the names of folders only), _month (in the names" in caplog.text


def test_folders_and_files_are_joined(tmp_path: Path) -> None:
    folder = parts(tmp_path / "in", ["0", "1"], "npy")
    single = write_rows(tmp_path, "c", "parquet", ROWS[:5])
    arrays_to_zarr([single, folder, single], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.concatenate([ROWS[:5], ROWS, ROWS[:5]]))


def test_a_split_does_not_depend_on_how_a_folder_is_named(tmp_path: Path, processes: Client) -> None:
    folder = parts(tmp_path / "in", [f"part.{k}" for k in range(3)])
    files = [folder / f"part.{k}.parquet" for k in range(3)]
    arrays_to_zarr(files, tmp_path / "files.zarr", test_share=0.3, seed=1)
    arrays_to_zarr([folder], tmp_path / "folder.zarr", test_share=0.3, seed=1)
    arrays_to_zarr([folder], tmp_path / "cluster.zarr", test_share=0.3, seed=1, client=processes)
    assert files_below(tmp_path / "folder.zarr") == files_below(tmp_path / "files.zarr")
    assert files_below(tmp_path / "cluster.zarr") == files_below(tmp_path / "files.zarr")
    same = ROWS[:20]
    for k in range(2):
        write_rows(tmp_path / f"nested/{k}", "part", "npy", same)
    arrays_to_zarr([tmp_path / "nested"], tmp_path / "nested.zarr", test_share=0.5)
    tests = stored(tmp_path / "nested.zarr/test")
    assert len(np.unique(tests, axis=0)) > len(tests) // 2  # files of one name are drawn apart


def test_parts_without_rows_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for file_format in FORMATS:
        folder = parts(tmp_path / file_format, ["1", "3"], file_format)
        for name in ("0", "2", "4"):
            write_rows(folder, name, file_format, ROWS[:0])
        with caplog.at_level(logging.INFO, "vmfa_dask.data_prep"):
            arrays_to_zarr([folder], tmp_path / f"{file_format}.zarr")
        assert f"3 file(s) hold no rows and are left out, the first is {folder}/0." in caplog.text
        np.testing.assert_array_equal(stored(tmp_path / f"{file_format}.zarr"), ROWS)
        with pytest.raises(ValueError, match=r"0\.(npy|h5|parquet): shape \(0, "):
            arrays_to_zarr([next(folder.glob("0.*"))], tmp_path / "y.zarr")


def test_an_interrupted_call_goes_on_and_another_part_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vmfa_dask.data_prep import shards

    monkeypatch.setattr(shards, "CHUNK_BYTES", 10 * 3 * 4)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 1)
    folder = parts(tmp_path / "in", ["a/0", "a/1", "b/0"])
    arrays_to_zarr([folder], tmp_path / "whole.zarr")
    with disk_full_after(2), pytest.raises(OSError, match="the disk is full"):
        arrays_to_zarr([folder], tmp_path / "x.zarr", workers=1)
    extra = write_rows(folder, "c", "parquet", ROWS[:5])
    with pytest.raises(ValueError, match="begun from other sources"):
        arrays_to_zarr([folder], tmp_path / "x.zarr")
    extra.unlink()
    arrays_to_zarr([folder], tmp_path / "x.zarr")
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")


def test_what_is_no_folder_of_parts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(folder: Path, target: str = "x.zarr") -> str:
        assert prepare_arrays([str(folder), str(tmp_path / target)]) == 1
        assert not list(tmp_path.rglob("*.zarr*"))
        return capsys.readouterr().err

    (tmp_path / "empty/_x").mkdir(parents=True)
    assert "empty holds no files that end with one of .npy, .h5" in refused(tmp_path / "empty")
    mixed = parts(tmp_path / "mixed", ["a"])
    write_rows(mixed, "b", "npy", ROWS)
    assert "holds a.parquet (Parquet) and b.npy (NumPy), expected files of one format" in refused(mixed)
    other = parts(tmp_path / "other", ["a"])
    (other / "sub").mkdir()
    (other / "sub/part.csv").write_text("1,2")
    assert "holds sub/part.csv, which does not end with one of .npy" in refused(other)
    assert "lie inside one another" in refused(other, "other/x.zarr")
    linked = parts(tmp_path / "linked", ["a"])
    (linked / "sub").symlink_to(mixed)
    assert "linked/sub is a link to a folder, not followed" in refused(linked)
    for marker, name in {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "zarr.json": "a Zarr store"}.items():
        table = parts(tmp_path / name.replace(" ", ""), ["a"])
        (table / marker).mkdir()
        assert name in refused(table)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    """As caches of data sets keep their files."""
    folder = parts(tmp_path / "blobs", ["0", "1"])
    (tmp_path / "in").mkdir()
    for name in ("0", "1"):
        (tmp_path / f"in/part-{name}.parquet").symlink_to(folder / f"{name}.parquet")
    arrays_to_zarr([tmp_path / "in"], tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), ROWS)
