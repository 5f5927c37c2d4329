"""H11: nothing half written stays, nothing of others is written over or removed, runs have folders of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.cases.ended_driver import OPTIONS, ROWS
from tests.samples import make_mixture, parameters, write_store
from vmfa_dask import MixtureModel, addresses, fit_distributed, fit_local
from vmfa_dask.store import places
from vmfa_dask.store.places import FolderPlace
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.scratch import MARK, new_mark
from vmfa_dask.store.versions import ZarrStorage

ROOT = Path(__file__).parents[2]
MODEL = MixtureModel.of(make_mixture(2, 5, 1, dtype="float32"))


def contents(folder: Path) -> dict[str, Any]:
    """Everything below a folder: bytes of files, targets of links."""

    def content(path: Path) -> Any:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None

    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*")}


def fit(run: Any, **options: Any) -> Any:
    return fit_local(ROWS, **{**OPTIONS, **options}, run=run, checkpoint_share=1)


# Where a run may lie.


def notes(folder: Path) -> None:
    (folder / "notes.txt").write_text("results of a year")


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


# What is planted where something is written.


def test_a_link_that_is_planted_beside_a_file_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("results of a year")
    place = FolderPlace(str(tmp_path / "run"))
    place.probe()
    monkeypatch.setattr(places, "_new_suffix", lambda: ".partial")  # as if somebody could know it
    for target in (precious, tmp_path / "nothing"):
        (tmp_path / "run" / "state.json.partial").unlink(missing_ok=True)
        (tmp_path / "run" / "state.json.partial").symlink_to(target)
        with pytest.raises(FileExistsError, match=r"cannot be written: File exists: '.*state\.json'"):
            place.replace("state.json", "{}")
        assert (tmp_path / "run" / "state.json.partial").is_symlink()
    assert precious.read_text() == "results of a year"
    assert not (tmp_path / "nothing").exists()
    monkeypatch.undo()
    place.replace("state.json", "{}")
    assert place.read("state.json") == "{}"


def test_names_of_what_is_half_written_differ_each_time(tmp_path: Path) -> None:
    assert len({places._new_suffix() for _ in range(100)}) == 100
    modes = []

    def look(target: str) -> None:
        modes.append(target)
        os.mkdir(target)

    place = FolderPlace(str(tmp_path))
    place.publish("a", look)
    place.publish("b", look)
    assert len({name.split(".", 1)[1] for name in modes}) == 2


# Failed writes.

FAILURES = [OSError(28, "No space left on device"), ValueError("x"), KeyboardInterrupt(), SystemExit(143)]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("exists", [True, False])
def test_failed_writes_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, exists: bool
) -> None:
    def fail(*arguments: Any) -> None:
        raise failure

    place = FolderPlace(str(tmp_path))
    if exists:
        place.replace("state.json", "old")
    before = contents(tmp_path)
    for at in ("fsync", "replace", "rename"):
        monkeypatch.setattr(os, at, fail)
        with pytest.raises(type(failure)) as error:
            place.publish("tree", os.mkdir) if at == "rename" else place.replace("state.json", "new")
        monkeypatch.undo()
        assert contents(tmp_path) == before
        if isinstance(failure, OSError):
            assert str(tmp_path) in str(error.value)

    def write(target: str) -> None:
        os.mkdir(target)
        Path(target, "zarr.json").write_text("{")
        raise failure

    with pytest.raises(type(failure)):
        place.publish("tree", write)
    assert contents(tmp_path) == before


# What is removed is what was written.


def test_a_run_without_a_state_gives_way_and_files_of_others_stay(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(run)
    (run / "state.json").unlink()
    versions = run / "versions"
    for folder in (versions, versions / "parameters", *(versions / "parameters").glob("0*"), versions / "mine"):
        folder.mkdir(exist_ok=True)
        notes(folder)
    blocks = list((versions / "parameters").glob("0*/0*"))
    (blocks[0] / "weights" / "notes.txt").write_text("results of a year")
    mine = {name for name in contents(run) if name.endswith("notes.txt")}
    assert len(mine) == 5
    assert parameters(fit(run, random_state=3).model) == parameters(fit_local(ROWS, **OPTIONS, random_state=3).model)
    assert mine <= set(contents(run))


def test_a_folder_is_as_before_when_nothing_came_of_a_run(tmp_path: Path) -> None:
    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(ValueError, match=r"finite"):
        fit_local(np.where(np.arange(ROWS.size).reshape(ROWS.shape) == 7, np.nan, ROWS), **OPTIONS, run=run)
    assert not run.exists() or os.listdir(run) == ["run.lock"]


def test_versions_that_are_replaced_go_and_files_of_others_stay(tmp_path: Path) -> None:
    storage = ZarrStorage(FolderPlace(str(tmp_path)))
    for version in (1, 2, 3):
        storage.write(addresses.Parameters(version, 0), {"weights": np.ones((3, 2, 2)), "empty": np.ones((0, 2))})
        storage.write(addresses.Parameters(version, 1), {"weights": np.float32(1)})
    notes(tmp_path / "parameters" / "000002")
    (tmp_path / "parameters" / "others").mkdir()
    for _ in range(2):
        storage.keep_only([("parameters", 3)])
        assert sorted(os.listdir(tmp_path / "parameters")) == ["000002", "000003", "others", "zarr.json"]
        assert os.listdir(tmp_path / "parameters" / "000002") == ["notes.txt"]
    assert storage.read(addresses.Parameters(3, 0))["weights"].shape == (3, 2, 2)
    assert zarr.open_group(str(tmp_path), mode="r")["parameters/000003/00001/weights"].shape == ()


def test_exchange_folders_of_killed_drivers_go_and_those_of_others_stay(tmp_path: Path, processes: Client) -> None:
    run = tmp_path / "run"
    fit(run)
    mark = new_mark(locked=False)
    for name, text in {"0123abcd": mark, "0123abce": None, "0123abcf": "{}", "rates": mark, "0123": mark}.items():
        (run / f"exchange-{name}" / "parameters").mkdir(parents=True)
        notes(run / f"exchange-{name}" / "parameters")
        if text is not None:
            (run / f"exchange-{name}" / MARK).write_text(text)
    (run / "exchange-0123abc0").mkdir()  # killed before it was marked
    (run / "exchange-0123abc1").mkdir()  # killed as it was
    (run / "exchange-0123abc1" / f"{MARK}.0123456789abcdef.partial").write_text("{")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / MARK).write_text(mark)
    (run / "exchange-0123abc2").symlink_to(tmp_path / "elsewhere")
    seen: list[str] = []

    def look(record: Any) -> None:
        seen.extend(name for name in os.listdir(run) if name.startswith("exchange-"))

    fit_distributed(ROWS, **{**OPTIONS, "max_iter": 6}, client=processes, run=run, progress=look)
    kept = {"exchange-0123abc2", "exchange-0123abce", "exchange-0123abcf", "exchange-rates", "exchange-0123"}
    assert {name for name in os.listdir(run) if name.startswith("exchange-")} == kept
    assert (tmp_path / "elsewhere" / MARK).exists()
    (own,) = set(seen) - kept
    assert len(own) == len("exchange-0123abcd")


# Forks for each step of what a driver does to the disk; the child ends at that step, without any cleaning up.
LEAVE = """
import os, sys
import numpy as np
from vmfa_dask.store.runs import RunFolder

def drive(folder, step):
    run, count = RunFolder(folder), 0

    def watch(event, arguments):
        nonlocal count
        if event not in ("os.rename", "os.mkdir", "open", "os.remove") or not str(arguments[0]).startswith(folder):
            return
        if event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            count += 1
            if count == step:
                os._exit(9)

    sys.addaudithook(watch)
    run.exchange("0123abcd")
    run.versions(1).write(addresses.Parameters(1, 0), {"weights": np.ones(3)})
    run.write_state({"records": []})
    os._exit(0)

step, code = 0, 9
while code:
    step += 1
    child = os.fork()
    if child == 0:
        drive(os.path.join(sys.argv[1], str(step)), step)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
"""


def test_whatever_killed_drivers_leave_half_written_the_next_one_removes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", LEAVE, str(tmp_path)], cwd=ROOT, env=environment, timeout=100, check=True)
    left = set()
    for run in tmp_path.iterdir():
        left |= {path.name.split(".")[0] for path in run.rglob("*.partial")}
        folder = RunFolder(str(run))
        folder.remove_exchanges()
        folder.release()
        assert not list(run.rglob("*.partial"))
        assert not list(run.glob("exchange-*"))
    assert {"state", "00000", "zarr", "scratch"} <= left


@pytest.mark.parametrize("name", ["run.json", "data.json", "state.json", "stop"])
def test_half_written_files_go_and_what_has_other_names_stays(tmp_path: Path, name: str) -> None:
    fit(tmp_path / "run")
    (tmp_path / "run" / f"{name}.0123456789abcdef.partial").write_text("{")
    (tmp_path / "run" / f"{name}.partial").write_text("{")
    (tmp_path / "run" / f"mine.{name}.0123456789abcdef.partial").write_text("{")
    fit(tmp_path / "run")
    left = sorted(path.name for path in (tmp_path / "run").glob("*.partial"))
    assert left == sorted([f"{name}.partial", f"mine.{name}.0123456789abcdef.partial"])


# Leftovers of saved models.


def leave(folder: Path, **changes: Any) -> Path:
    """What a killed save leaves beside a model, with changes to its mark."""
    left = folder / f"m.{2**22 + 1}-0123abcd.partial"
    (left / "new").mkdir(parents=True)
    (left / "scratch.lock").touch()
    (left / MARK).write_text(json.dumps({**json.loads(new_mark(locked=True)), **changes}))
    return left


@pytest.mark.parametrize(
    ("changes", "goes"),
    [
        ({}, True),
        ({"boot": "before"}, True),
        ({"locked": False, "pid": 2**22 + 1, "started": "1"}, True),
        ({"locked": False, "started": "1"}, True),  # its number is that of another process by now
        ({"locked": False}, False),  # at work
        ({"boot": "other", "host": "other"}, False),
        ({"format": "other"}, False),
    ],
)
def test_the_next_save_removes_what_is_certainly_left(tmp_path: Path, changes: dict[str, Any], goes: bool) -> None:
    left = leave(tmp_path, **changes)
    MODEL.save(tmp_path / "m")
    assert left.exists() != goes
    assert MixtureModel.load(tmp_path / "m") == MODEL


def test_a_model_that_was_moved_aside_is_read_and_moved_back(tmp_path: Path) -> None:
    left = leave(tmp_path)
    MODEL.save(left / "old")
    assert MixtureModel.load(tmp_path / "m") == MODEL
    with pytest.raises(FileExistsError, match=r"m exists; pass overwrite=True"):
        MODEL.save(tmp_path / "m")
    assert MixtureModel.load(tmp_path / "m") == MODEL
    assert os.listdir(tmp_path) == ["m"]


# Numbers that nobody means.


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
