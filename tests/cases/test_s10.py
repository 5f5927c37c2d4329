"""S10: saving replaces models and nothing else, and a process that ends on the way leaves the old or the new one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.samples import make_mixture, parameters
from vmfa_dask import MixtureModel
from vmfa_dask.store import models, replacing

OLD, NEW = (MixtureModel.of(make_mixture(c, 5, 1, dtype="float32")) for c in (2, 4))
ROOT = Path(__file__).parents[2]


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("results of a year")


def a_file(path: Path) -> None:
    path.write_text("results of a year")


def a_broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def a_link_to_a_model(path: Path) -> None:
    OLD.save(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def an_array(path: Path) -> None:
    zarr.create_array(str(path), shape=(3,), dtype="f4")[...] = 1


def another_group(path: Path) -> None:
    zarr.open_group(path, mode="w", attributes={"format": "something"}).create_array("weights", data=np.ones(3))


def a_run(path: Path) -> None:
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"format": {"name": "vmfa_dask.run", "version": 1}}))


def damaged_metadata(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("[1, 2")


def a_list_for_metadata(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text('{"attributes": [1]}')


def a_model_with_notes(path: Path) -> None:
    OLD.save(path)
    (path / "weights" / "notes.txt").write_text("results of a year")


def a_model_with_another_array(path: Path) -> None:
    OLD.save(path)
    zarr.open_group(path, mode="r+").create_array("labels", data=np.ones(3))


def a_model_with_a_linked_folder(path: Path) -> None:
    OLD.save(path)
    (path.parent / "precious").mkdir()
    (path / "precious").symlink_to(path.parent / "precious")


STRANGERS = [
    a_folder, a_file, a_broken_link, a_link_to_a_model, an_array, another_group, a_run, damaged_metadata,
    a_list_for_metadata, a_model_with_notes, a_model_with_another_array, a_model_with_a_linked_folder,
]  # fmt: skip


def contents(folder: Path) -> dict[str, Any]:
    """Everything below a folder: bytes of files, targets of links."""

    def content(path: Path) -> Any:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None

    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*")}


@pytest.mark.parametrize("make", STRANGERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("overwrite", [True, False])
def test_what_is_no_model_is_left_alone(tmp_path: Path, make: Callable[[Path], None], overwrite: bool) -> None:
    path = tmp_path / "results"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match="results") as found:
        NEW.save(path, overwrite=overwrite)
    assert "pass overwrite=True" not in str(found.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("at", ["results", "results/", "./results", "../{}/results"])
def test_models_are_replaced_when_that_is_asked_for(tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    at = at.format(tmp_path.name)
    OLD.save(at)
    with pytest.raises(FileExistsError, match="results exists; pass overwrite=True to replace it"):
        NEW.save(at)
    assert MixtureModel.load(at) == OLD
    NEW.save(at, overwrite=True)
    assert MixtureModel.load(at) == NEW
    assert [entry.name for entry in tmp_path.iterdir()] == ["results"]
    fixture = ROOT / "tests" / "fixtures" / "v0_1" / "model"
    shutil.copytree(fixture, tmp_path / "old format")
    NEW.save(tmp_path / "old format", overwrite=True)
    assert MixtureModel.load(tmp_path / "old format") == NEW
    (tmp_path / "empty").mkdir()
    NEW.save(tmp_path / "empty", overwrite=True)
    assert MixtureModel.load(tmp_path / "empty") == NEW


# Forks for each step of what a save does to the disk; the child saves and ends at that step, without any cleaning up.
KILLED = """
import os, sys
from vmfa_dask import MixtureModel
folder, old, new, first = *sys.argv[1:4], int(sys.argv[4])
WATCHED = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "open"}

def save_until(path, step):
    model, count = MixtureModel.load(new), 0
    if os.path.exists(old):
        MixtureModel.load(old).save(path)

    def watch(event, arguments):
        nonlocal count
        if event not in WATCHED or not str(arguments[0]).startswith(path):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        count += 1
        if count == step:
            os._exit(9)

    sys.addaudithook(watch)
    model.save(path, overwrite=True)

step, code = first, 9
while code:
    path = os.path.join(folder, str(step), "m")
    os.makedirs(os.path.dirname(path))
    child = os.fork()
    if child == 0:
        save_until(path, step)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    step += 2
"""


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.slow
def test_a_process_that_is_killed_at_any_step_leaves_the_old_or_the_new_one(
    tmp_path: Path, exists: bool, first: int
) -> None:
    """Steps are those at which a save opens, makes, renames or removes something."""
    old, new, work = (tmp_path / name for name in ("old", "new", "work"))
    NEW.save(new)
    if exists:
        OLD.save(old)
    command = [sys.executable, "-c", KILLED, str(work), str(old), str(new), str(first)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=100, check=True)
    seen = []
    for folder in sorted(work.iterdir(), key=lambda path: int(path.name)):
        path = folder / "m"
        try:
            found = MixtureModel.load(path)
            assert found in (OLD, NEW)
            seen.append("new" if found == NEW else "old")
        except FileNotFoundError:
            assert not exists
            seen.append("nothing")
        OLD.save(path, overwrite=True)
        assert MixtureModel.load(path) == OLD
        assert [entry.name for entry in folder.iterdir()] == ["m"]
    before = "old" if exists else "nothing"
    assert len(seen) > 10
    assert seen == sorted(seen, key=(before, "new").index)
    assert set(seen) == {before, "new"}


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("failure", [OSError("No space left on device"), ValueError("x"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 3, 5])
def test_failed_saves_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool, failure: BaseException, at: int
) -> None:
    path, write, calls = tmp_path / "m", models.write_array, []
    if exists:
        OLD.save(path)
    before = contents(tmp_path)

    def fail(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == at:
            raise failure
        write(*arguments)

    monkeypatch.setattr(models, "write_array", fail)
    with pytest.raises(type(failure)):
        NEW.save(path, overwrite=True)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    NEW.save(path, overwrite=True)
    assert parameters(MixtureModel.load(path)) == parameters(NEW)


def test_a_failed_rename_puts_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OLD.save(tmp_path / "m")
    rename = os.rename

    def fail(source: str, target: str) -> None:
        if source.endswith("new"):
            raise PermissionError(13, "not today", target)
        rename(source, target)

    monkeypatch.setattr(replacing, "swap", lambda one, other: False)  # a disk that cannot exchange names
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(PermissionError):
        NEW.save(tmp_path / "m", overwrite=True)
    assert MixtureModel.load(tmp_path / "m") == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_what_lies_beside_a_model_is_left_alone(tmp_path: Path) -> None:
    """Folders of other people that are named like leftovers, and saves of running processes."""
    OLD.save(tmp_path / "m")
    OLD.save(tmp_path / "m.replaced")
    OLD.save(tmp_path / "m.partial-model")
    for name in ("m.partial", f"m.{os.getpid()}-0123abcd.partial", "m.12-xyz.partial", "mm.99999999-0123abcd.partial"):
        a_folder(tmp_path / name)
    before = contents(tmp_path)
    NEW.save(tmp_path / "m", overwrite=True)
    after = contents(tmp_path)
    assert {name: value for name, value in after.items() if not name.startswith("m/")} == {
        name: value for name, value in before.items() if not name.startswith("m/")
    }
