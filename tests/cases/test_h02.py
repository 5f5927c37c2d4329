"""H02: rows that were replaced between two calls of one run are noticed, whatever sizes and times their files have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kept import change, seal
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_local
from vmfa_dask.service import fingerprint

ROWS = draw(make_mixture(3, 6, 1), 600, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 3, "max_warmup_iter": 1, "max_iter": 2, "tol": 0.0,
}  # fmt: skip
LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {"chunks": (100, 6), "compressors": None},
    "zstd": {"chunks": (100, 6)},
    "shards": {"chunks": (50, 6), "shards": (200, 6), "compressors": None},
    "format 2": {"chunks": (100, 6), "zarr_format": 2, "compressors": None},
    "one chunk": {"chunks": (600, 6), "compressors": None},
}


def replaced() -> np.ndarray:
    """Other rows, equal in the 16 that a run is known by."""
    rows = draw(make_mixture(3, 6, 1), 600, seed=9, dtype="float32")
    same = np.unique(np.linspace(0, 599, 16).astype(int))
    rows[same] = ROWS[same]
    return rows


def with_times(path: Path, times: dict[str, tuple[int, int]]) -> None:
    for file in path.rglob("*"):
        if file.is_file():
            os.utime(file, ns=times[str(file.relative_to(path))])


def times_of(path: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file.relative_to(path)): (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("bound", ["all rows", "rows while files tell of changes", "parts"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_replaced_rows_with_the_times_of_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, bound: str
) -> None:
    if bound != "all rows":
        monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    if bound == "parts":
        monkeypatch.setattr(fingerprint, "_MOST_BYTES", 0)
    path, run = tmp_path / "x.zarr", str(tmp_path / "run")
    first = fit_local(write_store(path, ROWS, **LAYOUTS[layout]), **OPTIONS, run=run)
    times = times_of(path)
    again = fit_local(str(path), **OPTIONS, run=run)
    assert parameters(again.model) == parameters(first.model)
    write_store(path, replaced(), overwrite=True, **LAYOUTS[layout])
    with_times(path, times)
    with pytest.raises(ValueError, match=r"data: (rows within|these may be other rows).* the run in .* was begun with"):
        fit_local(str(path), **OPTIONS, run=run)


def test_stores_that_tell_nothing_are_known_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Web servers and other file systems: no sizes, no times."""
    monkeypatch.setattr(fingerprint, "_MOST_REMOTE_BYTES", 0)
    monkeypatch.setattr(fingerprint, "_MOST_BYTES", 0)
    monkeypatch.setattr(fingerprint, "stamps_of", lambda array: None)
    path, run = tmp_path / "x.zarr", tmp_path / "run"
    fit_local(write_store(path, ROWS, 100), **OPTIONS, run=str(run))
    known = json.loads((run / "data.json").read_text())
    assert known["objects"] is None
    assert known["checksums"] is None
    assert known["parts"][0][0] == 0
    assert known["parts"][-1][1] == 600
    fit_local(str(path), **OPTIONS, run=str(run))
    write_store(path, replaced(), 100, overwrite=True)
    with pytest.raises(ValueError, match=r"data: rows within .* are not those that the run in .* was begun with"):
        fit_local(str(path), **OPTIONS, run=str(run))


def test_a_run_without_parts_gets_them_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_ALWAYS_BYTES", 0)
    monkeypatch.setattr(fingerprint, "_MOST_BYTES", 0)
    path, run = tmp_path / "x.zarr", tmp_path / "run"
    fit_local(write_store(path, ROWS, 100), **OPTIONS, run=str(run))
    change(run / "data.json", lambda known: known.pop("parts"))
    seal(run / "data.json")
    fit_local(str(path), **{**OPTIONS, "max_iter": 3}, run=str(run))
    assert json.loads((run / "data.json").read_text())["parts"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", [0, 2**10, 2**12, 2**26])
def test_parts_lie_all_over_the_rows_and_within_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, budget: int
) -> None:
    monkeypatch.setattr(fingerprint, "_PARTS_BYTES", budget)
    from vmfa_dask.store.rows import ZarrRows

    rows = ZarrRows(write_store(tmp_path / "x.zarr", ROWS, **LAYOUTS[layout]))
    parts = fingerprint._parts(rows)
    assert parts is not None
    starts, stops = [part[0] for part in parts], [part[1] for part in parts]
    assert (min(starts), max(stops)) == (0, 600)
    assert all(0 <= start < stop <= 600 for start, stop in zip(starts, stops, strict=True))
    if len(parts) > 2:
        assert sum(stop - start for start, stop in zip(starts, stops, strict=True)) * 24 <= budget
