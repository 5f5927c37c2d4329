"""H08, H09: locks lie with what they protect, nobody waits in silence or for ever, and disks without locks are used."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock, Timeout

from tests.cases.ended_driver import OPTIONS, ROWS
from vmfa_dask import fit_local
from vmfa_dask.cluster import compilation
from vmfa_dask.run.settings import Settings
from vmfa_dask.store.locks import held_lock
from vmfa_dask.store.runs import RunFolder

ROOT = Path(__file__).parents[2]
FLOAT = np.dtype("float32")


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not compiled anything."""
    monkeypatch.setattr(compilation, "_compiled", set())
    monkeypatch.setattr(compilation, "_tiny_fit", lambda *arguments: None)


def warm() -> None:
    compilation.compile_ahead(Settings.paper(3, 1), FLOAT)


# Where the lock of the compile cache lies.

WHERE = "from vmfa_dask.cluster import compilation; print(compilation._lock_path())"


def lock_path(**environment: str) -> str:
    command = [sys.executable, "-c", WHERE]
    known = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_the_lock_lies_in_the_cache_of_compiled_code(tmp_path: Path) -> None:
    beside = str(ROOT / "vmfa_dask" / "kernels" / "__pycache__" / "vmfa_dask.lock")
    assert lock_path(NUMBA_CACHE_DIR="") == beside
    given = Path(lock_path(NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert given.name == "vmfa_dask.lock"
    assert given.parent.parent == tmp_path / "cache"
    assert lock_path(NUMBA_CACHE_DIR="", TMPDIR=str(tmp_path)) == beside  # and never in a folder that others share
    assert os.listdir(tmp_path) == ["cache"]


def test_without_a_cache_there_is_nothing_to_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "cache_folder", lambda: None)
    monkeypatch.setattr(compilation, "held_lock", None)
    warm()


# Waiting.


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileLock]:
    """The lock, held by somebody else."""
    path = str(tmp_path / "vmfa_dask.lock")
    monkeypatch.setattr(compilation, "_lock_path", lambda: path)
    monkeypatch.setattr(compilation, "_SILENT_SECONDS", 0.05)
    with FileLock(path, thread_local=False) as lock:
        yield lock


def test_who_waits_says_so_and_goes_on_when_it_is_free(
    held: FileLock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vmfa_dask")
    order: list[str] = []
    monkeypatch.setattr(compilation, "_tiny_fit", lambda *arguments: order.append("compiled"))
    waiting = threading.Thread(target=warm)
    waiting.start()
    while "waiting for it" not in caplog.text:
        waiting.join(0.01)
    order.append("released")
    held.release()
    waiting.join(30)
    assert order == ["released", "compiled"]
    assert f"{held.lock_file}: another process compiles kernels; waiting for it, 120 s at most" in caplog.text


def test_nobody_waits_for_ever(
    held: FileLock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compilation, "_LOCK_SECONDS", 0.1)
    warm()
    (record,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.getMessage() == f"{held.lock_file}: held by another process for 0 s; compiling without it"


@pytest.mark.parametrize("plant", ["link", "folder"])
def test_what_is_planted_in_place_of_the_lock_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, plant: str
) -> None:
    path, precious = tmp_path / "x.lock", tmp_path / "precious"
    precious.write_text("results of a year")
    path.mkdir() if plant == "folder" else path.symlink_to(precious)
    monkeypatch.setattr(compilation, "_lock_path", lambda: str(path))
    caplog.set_level(logging.INFO, "vmfa_dask")
    warm()
    assert precious.read_text() == "results of a year"
    if plant == "folder":
        assert "x.lock: cannot be locked" in caplog.text


# Disks without locks, and locks of others.

NO_LOCKS = [OSError(code, os.strerror(code)) for code in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)]


@pytest.mark.parametrize("refusal", [*NO_LOCKS, NotImplementedError("no locks")], ids=str)
def test_disks_without_locks_are_used_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusal: Exception
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise refusal

    monkeypatch.setattr(FileLock, "acquire", refuse)
    monkeypatch.setattr(compilation, "_lock_path", lambda: str(tmp_path / "x.lock"))
    caplog.set_level(logging.INFO, "vmfa_dask")
    fit_local(ROWS, **OPTIONS, run=tmp_path / "run")
    assert fit_local(ROWS, **OPTIONS, run=tmp_path / "run", resume="require").history
    for name in ("run.lock", "x.lock"):
        assert any(f"{name}: this disk has no locks (" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO, errno.ENOSPC])
def test_other_errors_of_a_lock_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(code, os.strerror(code), "x")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(OSError, match=r"\[Errno") as error:
        held_lock(str(tmp_path / "x"))
    assert error.value.errno == code


def test_a_second_driver_is_refused_at_once_whichever_thread_releases_the_first(tmp_path: Path) -> None:
    first = RunFolder(str(tmp_path / "run"))
    with pytest.raises(RuntimeError, match=r"run: another process is working on this run"):
        fit_local(ROWS, **OPTIONS, run=tmp_path / "run")
    with pytest.raises(Timeout):
        held_lock(str(tmp_path / "run" / "run.lock"))
    thread = threading.Thread(target=first.release)
    thread.start()
    thread.join()
    RunFolder(str(tmp_path / "run")).release()
