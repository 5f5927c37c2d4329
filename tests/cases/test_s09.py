"""S09: rows that have changed since a run was begun are noticed and named; copies, and rows in other forms, go on."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import zarr
from distributed import Client

from tests.kept import as_format_1
from tests.objects import environment_of, make_bucket, object_server
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.service import fingerprint

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 3, "max_warmup_iter": 1, "max_iter": 2, "tol": 0.0,
}  # fmt: skip
CHUNK = 100


def corrected(row: int = 301) -> np.ndarray:
    """The rows, one of them between those of any small sample corrected."""
    rows = ROWS.copy()
    rows[row, 2] += 0.5
    return rows


def write_zip(path: Path, rows: np.ndarray) -> str:
    folder = write_store(path.with_suffix(".folder"), rows, CHUNK)
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    shutil.rmtree(folder)
    return str(path)


def write_again(path: Path, rows: np.ndarray) -> str:
    """Rows into the store that is there, or a new one."""
    if path.exists():
        zarr.open_array(str(path), mode="r+")[...] = rows
        return str(path)
    return write_store(path, rows, CHUNK)


SOURCES: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "uncompressed": lambda path, rows: write_store(path / "x.zarr", rows, CHUNK, compressors=None, overwrite=True),
    "compressed": lambda path, rows: write_store(path / "x.zarr", rows, CHUNK, overwrite=True),
    "format 2": lambda path, rows: write_store(path / "x.zarr", rows, CHUNK, zarr_format=2, overwrite=True),
    "sharded": lambda path, rows: write_store(path / "x.zarr", rows, 50, shards=(300, 6), overwrite=True),
    "in place": lambda path, rows: write_again(path / "x.zarr", rows),
    "zip": lambda path, rows: write_zip(path / "x.zip", rows),
    "NumPy": lambda path, rows: rows,
    "Dask": lambda path, rows: dask.array.from_array(rows, chunks=(CHUNK, 6)),
    "array of zarr": lambda path, rows: zarr.open_array(write_store(path / "x.zarr", rows, CHUNK, overwrite=True)),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
@pytest.mark.parametrize("bound", ["always compared", "compared when files changed"])
def test_a_corrected_row_is_noticed_and_the_right_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Callable[[Path, np.ndarray], Any], bound: str
) -> None:
    if bound != "always compared":
        monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    run = str(tmp_path / "run")
    first = fit_local(source(tmp_path, ROWS), **OPTIONS, run=run)
    with pytest.raises(ValueError, match=r"data: rows within 301:302 are not those .* Use another folder as run"):
        fit_local(source(tmp_path, corrected()), **OPTIONS, run=run)
    again = fit_local(source(tmp_path, ROWS), **OPTIONS, run=run)
    assert parameters(again.model) == parameters(first.model)


def test_what_was_written_since_is_named_in_chunks_and_rows(tmp_path: Path) -> None:
    path, run = tmp_path / "x.zarr", str(tmp_path / "run")
    fit_local(write_store(path, ROWS, CHUNK), **OPTIONS, run=run)
    stored = zarr.open_array(str(path), mode="r+")
    stored[150:153] = 7.0
    stored[520] = 7.0
    message = r"rows within 150:153, 520:521 are .* chunks that were written since: c/1/0, c/5/0\."
    with pytest.raises(ValueError, match=message):
        fit_local(str(path), **OPTIONS, run=run)


MOVES: dict[str, Callable[[Path], Path]] = {
    "touched": lambda path: [os.utime(file) for file in path.rglob("*")] and path,  # type: ignore[misc,func-returns-value]
    "copied": lambda path: Path(shutil.copytree(path, path.with_name("copy.zarr"), copy_function=shutil.copyfile)),
    "moved": lambda path: path.rename(path.with_name("moved.zarr")),
    "written again": lambda path: Path(write_store(path, ROWS, CHUNK, overwrite=True)),
    "compressed otherwise": lambda path: Path(write_store(path, ROWS, CHUNK, compressors=None, overwrite=True)),
    "with files of others": lambda path: ((path / "_SUCCESS").touch(), (path / "c" / ".nfs1").touch()) and path,
}


@pytest.mark.parametrize("move", MOVES.values(), ids=list(MOVES))
def test_the_same_rows_elsewhere_or_with_other_times_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[[Path], Path]
) -> None:
    monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    run = tmp_path / "run"
    straight = fit_local(ROWS, **{**OPTIONS, "max_iter": 4})
    path = Path(write_store(tmp_path / "x.zarr", ROWS, CHUNK))
    fit_local(str(path), **OPTIONS, run=str(run))
    path = move(path)
    longer = fit_local(str(path), **{**OPTIONS, "max_iter": 4}, run=str(run))
    assert parameters(longer.model) == parameters(straight.model)
    known = json.loads((run / "data.json").read_text())["objects"]
    assert known["c/0/0"][1] == str((path / "c/0/0").stat().st_mtime_ns)  # what was found equal is trusted next time


@pytest.mark.parametrize("first", ["NumPy", "compressed", "Dask"])
@pytest.mark.parametrize("then", ["NumPy", "sharded", "zip", "Dask"])
def test_rows_may_come_in_another_form(tmp_path: Path, first: str, then: str) -> None:
    run = str(tmp_path / "run")
    fit = fit_local(SOURCES[first](tmp_path, ROWS), **OPTIONS, run=run)
    again = fit_local(SOURCES[then](tmp_path, ROWS), **OPTIONS, run=run)
    assert parameters(again.model) == parameters(fit.model)
    with pytest.raises(ValueError, match="rows within 301:302"):
        fit_local(SOURCES[then](tmp_path, corrected()), **OPTIONS, run=run)


def test_large_data_is_known_by_its_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    monkeypatch.setattr(fingerprint, "_MOST_BYTES", 0)
    path, run = tmp_path / "x.zarr", tmp_path / "run"
    fit_local(write_store(path, ROWS, CHUNK, compressors=None), **OPTIONS, run=str(run))
    assert json.loads((run / "data.json").read_text())["checksums"] is None
    fit_local(str(path), **OPTIONS, run=str(run))
    copy = tmp_path / "copy.zarr"
    shutil.copytree(path, copy)  # with times
    fit_local(str(copy), **OPTIONS, run=str(run))
    zarr.open_array(str(copy), mode="r+")[301] = 7.0
    message = r"times of 1 of its 6 chunks have changed: c/3/0\. Use another folder as run, or, .* restore their times"
    with pytest.raises(ValueError, match=message):
        fit_local(str(copy), **OPTIONS, run=str(run))
    os.remove(copy / "c/3/0")
    with pytest.raises(ValueError, match="1 of its 6 chunks have changed: c/3/0"):
        fit_local(str(copy), **OPTIONS, run=str(run), missing_chunks="fill")


def test_a_run_of_an_older_version_goes_on_and_is_watched_from_then_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_local(ROWS, **OPTIONS, run=str(run))
    (run / "data.json").unlink()
    as_format_1(run, lambda known: known.pop("start"))
    fit_local(ROWS, **{**OPTIONS, "max_iter": 3}, run=str(run))
    with pytest.raises(ValueError, match="rows within 301:302"):
        fit_local(corrected(), **{**OPTIONS, "max_iter": 3}, run=str(run))


@pytest.mark.parametrize("change", ["rows", "features", "dtype"])
def test_other_sizes_are_named_first(tmp_path: Path, change: str) -> None:
    run = str(tmp_path / "run")
    fit_local(ROWS, **OPTIONS, run=run)
    other = {"rows": ROWS[:-1], "features": ROWS[:, :-1], "dtype": ROWS.astype(np.float64)}[change]
    name = {"rows": "n_rows", "features": "feature_shape", "dtype": "dtype"}[change]
    with pytest.raises(ValueError, match=f"another run: its data {name} is"):
        fit_local(other, **OPTIONS, run=run)


@pytest.mark.slow
def test_on_a_cluster_and_in_an_object_store(tmp_path: Path, processes: Client) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, CHUNK)
    with object_server() as port, environment_of(port):
        run = f"{make_bucket(port)}/run"
        fit_distributed(path, **OPTIONS, run=run, client=processes, scratch=tmp_path)
        zarr.open_array(path, mode="r+")[301] = 7.0
        with pytest.raises(ValueError, match="rows within 301:302"):
            fit_distributed(path, **OPTIONS, run=run, client=processes, scratch=tmp_path)


@pytest.mark.slow
def test_objects_have_tags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    monkeypatch.setattr(fingerprint, "_MOST_REMOTE_BYTES", 0)
    with object_server() as port, environment_of(port):
        from vmfa_dask.store.objects import zarr_target

        url = f"{make_bucket(port)}/group/x.zarr"
        stored = zarr.create_array(zarr_target(url), shape=ROWS.shape, dtype=ROWS.dtype, chunks=(CHUNK, 6))
        stored[...] = ROWS
        run = tmp_path / "run"
        fit_local(url, **OPTIONS, run=str(run))
        assert list(json.loads((run / "data.json").read_text())["objects"]) == [f"c/{k}/0" for k in range(6)]
        fit_local(url, **OPTIONS, run=str(run))
        stored[200:300] = 1.0
        with pytest.raises(ValueError, match="1 of its 6 chunks have changed: c/2/0"):
            fit_local(url, **OPTIONS, run=str(run))
