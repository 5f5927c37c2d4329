"""H11: a run has a folder of its own, files of others are left alone, and absurd numbers are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases.ended_driver import OPTIONS, ROWS
from tests.cases.run_folders import MODEL, contents, fit, notes
from tests.samples import parameters, write_store
from vmfa_dask import MixtureModel, fit_distributed, fit_local


def a_folder(folder: Path) -> None:
    (folder / "thesis").mkdir()


def a_hidden_file(folder: Path) -> None:
    (folder / ".bashrc").write_text("")


def a_store(folder: Path) -> None:
    write_store(folder, ROWS, 100)


def a_model(folder: Path) -> None:
    folder.rmdir()
    MODEL.save(folder)


def names_like_a_run(folder: Path) -> None:
    for name in ("exchange-rates", "versions.txt", "state.json.old", "state.json.partial", ".probe-me"):
        (folder / name).mkdir()


STRANGERS = [notes, a_folder, a_hidden_file, a_store, a_model, names_like_a_run]


@pytest.mark.parametrize("make", STRANGERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("way", ["path", ".", "", "./", "link"])
def test_folders_with_other_files_are_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], way: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    make(folder)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    before = contents(tmp_path)
    run = {"path": str(folder), "link": tmp_path / "link", "": Path("")}.get(way, way)
    with pytest.raises(FileExistsError, match=r"^run='.*(work|link)' holds other files, such as '.*', and no run; exp"):
        fit(run)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("run", ["", "  "])
def test_no_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"run='\s*': expected a folder or the URL"):
        fit(run)
    assert os.listdir(tmp_path) == []


def test_the_home_folder_and_the_root_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    notes(tmp_path)
    for run in ("~", "/"):
        with pytest.raises(FileExistsError, match=r"and no run; expected a new or an empty folder"):
            fit(run)


@pytest.mark.long
def test_new_empty_and_own_folders_are_taken_and_files_beside_a_run_stay(tmp_path: Path) -> None:
    run = tmp_path / "a" / "b"
    (tmp_path / "empty" / "lost+found").mkdir(parents=True)
    fit(tmp_path / "empty")
    fit(run)
    notes(run)
    MODEL.save(run / "model")
    (run / "exchange-rates").mkdir()
    (run / "versions" / "parameters" / "notes").mkdir()
    assert parameters(fit(run, max_iter=6).model) == parameters(fit_local(ROWS, **{**OPTIONS, "max_iter": 6}).model)
    assert (run / "notes.txt").exists()
    assert (run / "exchange-rates").exists()
    assert MixtureModel.load(run / "model") == MODEL


@pytest.mark.parametrize("name", ["run.json", "data.json", "state.json", "stop", "run.lock", "versions"])
@pytest.mark.parametrize("dangling", [True, False])
def test_links_in_the_place_of_files_of_a_run_are_not_followed(tmp_path: Path, name: str, dangling: bool) -> None:
    run, precious = tmp_path / "run", tmp_path / "other" / name
    run.mkdir()
    if not dangling:
        fit(tmp_path / "other")
        (tmp_path / "other" / "stop").write_text("")
    (run / name).symlink_to(precious)
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=rf"run/{name} is a link, expected a file or folder of the run itself"):
        fit(run)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("threads", value) for value in (-1, 0, -(10**30), 10**6, 10**30, np.int64(2**40))],
        *[("n_groups", value) for value in (-1, 0, 10**6, 10**30)],
        *[("cache_bytes", value) for value in (-1, -(10**30), 2**61, 10**30, "1e30 GB", "-1 GB")],
        *[("worker_timeout", value) for value in (-1, 1e10, 1e300, "1e6 days", "-1 h")],
    ],
)
@pytest.mark.parametrize("distributed", [True, False])
def test_absurd_numbers_are_refused_by_name(tmp_path: Path, name: str, value: Any, distributed: bool) -> None:
    if name == "worker_timeout" and not distributed:
        return
    run: Any = fit_distributed if distributed else fit_local
    with pytest.raises(ValueError, match=rf"^{name}=.*: expected "):
        run(ROWS, **{**OPTIONS, name: value}, run=tmp_path / "run")
    assert os.listdir(tmp_path) == []
