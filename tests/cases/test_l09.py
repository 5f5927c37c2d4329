"""L09: a fit that a batch system ends cleans up as after Ctrl-C; what a killed one leaves, the next one removes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.cases.ended_driver import LAST_PASS, OPTIONS, ROWS
from tests.samples import parameters
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.service.endings import ending_by_signals
from vmfa_dask.store import scratch
from vmfa_dask.store.scratch import in_scratch, scratch_folder

ROOT = Path(__file__).parents[2]


def end_a_driver(client: Client, folder: Path, name: str, *run: str) -> tuple[int, str]:
    """Exit status of a driver that gets a signal, and what it had in scratch then."""
    command = [sys.executable, "-m", "tests.cases.ended_driver", client.scheduler.address, str(folder), name, *run]
    ended = subprocess.run(command, cwd=ROOT, timeout=100, capture_output=True, text=True)
    return ended.returncode, ended.stdout.strip()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.slow
def test_a_signal_ends_a_fit_as_ctrl_c_does(tmp_path: Path, processes: Client, name: str) -> None:
    folder, run = tmp_path / "scratch", tmp_path / "run"
    folder.mkdir()
    status, left = end_a_driver(processes, folder, name, str(run))
    assert status == 128 + getattr(signal, name)
    assert left == "vmfa vmfa"  # copies of the rows, and the exchange folder
    assert os.listdir(folder) == []
    passes: list[int] = []
    fit = fit_local(ROWS, **OPTIONS, run=run, resume="require", progress=lambda record: passes.append(record.iteration))
    assert passes[0] == LAST_PASS + 1
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


@pytest.mark.slow
def test_a_signal_from_elsewhere_ends_a_fit_that_waits_for_its_workers(tmp_path: Path, processes: Client) -> None:
    command = [sys.executable, "-m", "tests.cases.ended_driver", processes.scheduler.address, str(tmp_path), "none"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline().strip() == "vmfa vmfa"
        driver.send_signal(signal.SIGTERM)
        driver.communicate(timeout=60)
    assert driver.returncode == 143
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_the_next_fit_removes_what_a_killed_one_has_left(tmp_path: Path, processes: Client) -> None:
    status, _ = end_a_driver(processes, tmp_path, "SIGKILL")
    assert status == -signal.SIGKILL
    left = os.listdir(tmp_path)
    assert len(left) == 2
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o700 for name in left)
    (tmp_path / "vmfa-notes").mkdir()
    fit_distributed(ROWS, **OPTIONS, client=processes, scratch=tmp_path)
    assert os.listdir(tmp_path) == ["vmfa-notes"]


# Folders of owners of all kinds.


def leave(parent: Path, **changes: Any) -> Path:
    """A folder as its owner would have left it, with some changes to its mark."""
    with scratch_folder("left", str(parent)) as path:
        mark = json.loads((Path(path) / "scratch.json").read_text())
    folder = Path(path)
    folder.mkdir()
    (folder / "rows").write_text("rows")
    (folder / "scratch.lock").touch()
    (folder / "scratch.json").write_text(json.dumps({**mark, **changes}))
    return folder


def look(parent: Path) -> None:
    """What a fit does first."""
    with scratch_folder("new", str(parent)):
        pass


ENDED = {"pid": 2**22 + 1, "started": "1"}
REUSED = {"started": "1"}  # of this process, which began at another time
GONE: dict[str, dict[str, Any]] = {
    "its lock is free": {},
    "without locks, ended": {"locked": False, **ENDED},
    "without locks, its number is another process's": {"locked": False, **REUSED},
    "this machine was started again": {"boot": "before"},
    "this machine was started again, without locks": {"boot": "before", "locked": False},
    "a container that ended": {"namespace": "pid:[1]", "host": "other"},
}
ALIVE: dict[str, dict[str, Any]] = {
    "without locks, at work": {"locked": False},
    "without locks, in another container": {"locked": False, "namespace": "pid:[1]", **ENDED},
    "without locks, start unknown": {"locked": False, "started": None},
    "another machine": {"boot": "other", "machine": "other"},
    "another machine of this name": {"boot": "other", "machine": None},
    "another name": {"boot": "other", "host": "other"},
    "unknown start of its machine": {"boot": None},
    "not our mark": {"format": "other"},
    "damaged mark": {"format": None},
}


@pytest.mark.parametrize("changes", GONE.values(), ids=list(GONE))
def test_what_owners_left_that_are_gone_is_removed(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = leave(tmp_path, **changes)
    look(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("changes", ALIVE.values(), ids=list(ALIVE))
def test_what_belongs_to_others_or_may_be_at_work_stays(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = leave(tmp_path, **changes)
    look(tmp_path)
    assert (folder / "rows").read_text() == "rows"


@pytest.mark.slow
def test_a_locked_folder_stays(tmp_path: Path) -> None:
    with scratch_folder("one", str(tmp_path)) as one:
        (Path(one) / "rows").write_text("rows")
        look(tmp_path)
        code = f"from tests.cases.test_l09 import look; look({str(tmp_path)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
        assert (Path(one) / "rows").exists()
    assert os.listdir(tmp_path) == []


def test_folders_of_others_files_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = leave(tmp_path).rename(tmp_path / "elsewhere")
    folder = leave(tmp_path)
    (tmp_path / "vmfa-link").symlink_to(target)
    (tmp_path / "vmfa-file").write_text("{}")
    (tmp_path / "vmfa-unmarked").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 4711)
        look(tmp_path)
        assert folder.exists()
    look(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "vmfa-file", "vmfa-link", "vmfa-unmarked"]
    assert (target / "rows").exists()


def test_disks_without_locks_are_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(scratch.FileLock, "acquire", refuse)
    with scratch_folder("one", str(tmp_path)) as one:
        look(tmp_path)
        assert os.path.isdir(one)
        assert in_scratch(f"{one}/rows.zarr")
    assert os.listdir(tmp_path) == []
    assert not in_scratch(f"{one}/rows.zarr")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, processes: Client) -> None:
    with pytest.raises(FileNotFoundError, match=r"no temporary folder can be made there: .*'.*/nowhere'"):
        fit_distributed(ROWS, **OPTIONS, client=processes, scratch=tmp_path / "nowhere")


# Signals.


@contextmanager
def handler(number: int, action: Any) -> Iterator[None]:
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_signals_do_what_they_did_before_when_a_fit_is_over() -> None:
    with handler(signal.SIGTERM, signal.SIG_DFL):
        fit_local(ROWS, **OPTIONS)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        with pytest.raises(SystemExit) as ended, ending_by_signals():
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_signal_does_not_disturb_the_end() -> None:
    done: list[str] = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            done.append("removed")

    with handler(signal.SIGTERM, signal.SIG_DFL), handler(signal.SIGHUP, signal.SIG_DFL):
        with pytest.raises(SystemExit), ending_by_signals():
            work()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    assert done == ["removed"]


@pytest.mark.parametrize("action", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "handled"])
def test_what_somebody_else_decided_stays(action: Any) -> None:
    with handler(signal.SIGTERM, action), ending_by_signals():
        assert signal.getsignal(signal.SIGTERM) is action


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    def own(number: int, frame: Any) -> None: ...

    with handler(signal.SIGTERM, signal.SIG_DFL):
        with ending_by_signals():
            signal.signal(signal.SIGTERM, own)
        assert signal.getsignal(signal.SIGTERM) is own


def test_other_threads_fit_without_touching_signals() -> None:
    found: list[Any] = []

    def work() -> None:
        fit_local(ROWS, **OPTIONS, progress=lambda record: found.append(signal.getsignal(signal.SIGTERM)))

    with handler(signal.SIGTERM, signal.SIG_DFL):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found
    assert set(found) == {signal.SIG_DFL}
