"""H11: what killed drivers and saves leave is removed by the next one, and nothing that others have written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.cases.ended_driver import OPTIONS, ROWS
from tests.cases.run_folders import MODEL, contents, fit, notes
from tests.programs import run_python
from tests.samples import parameters
from vmfa_dask import MixtureModel, addresses, fit_distributed, fit_local
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.marks import MARK, new_mark
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.version_store import ZarrStorage


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
    assert zarr.open_group(str(tmp_path), mode="r")["parameters/000003/components-00001/weights"].shape == ()


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
from vmfa_dask import addresses
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


@pytest.mark.slow
def test_whatever_killed_drivers_leave_half_written_the_next_one_removes(tmp_path: Path) -> None:
    run_python("-c", LEAVE, str(tmp_path))
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
