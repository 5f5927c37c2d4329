"""What a killed process leaves is the old or the new, and processes that save to one path leave one whole model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import ROOT, run_python
from tests.samples import make_mixture
from tests.store.killed_savers import is_whole
from vmfa_dask import addresses
from vmfa_dask.store import disk, replacing
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.models import save_mixture
from vmfa_dask.store.runs import RunFolder
from vmfa_dask.store.version_store import FILES_OF_VERSIONS, ZarrStorage

ROUNDS = 20
MODEL = make_mixture(2, 5, 1, dtype="float32")


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", *code.split(), *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True)


@pytest.mark.parametrize("swaps", ["1", "0"], ids=["exchange", "two renames"])
@pytest.mark.slow
def test_killed_savers_leave_the_old_or_the_new(tmp_path: Path, swaps: str) -> None:
    assert child("-m tests.store.killed_savers", str(ROUNDS), swaps, str(tmp_path)).wait(100) == 0
    (tmp_path / "m").rename(tmp_path.parent / f"{tmp_path.name}-m")
    RunFolder(str(tmp_path)).release()  # a driver removes what is left half written in its run
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name]


# Forks processes that save at once: argv are the number of them, of saves of each, overwrite, exchange, and the path.
SAVERS = """
import os, sys
from tests.store.killed_savers import MODELS, is_whole
from vmfa_dask.store import replacing
from vmfa_dask.store.models import save_mixture

n, saves, overwrite, swaps = map(int, sys.argv[1:5])
path = sys.argv[5]
if not swaps:
    replacing.swap = lambda one, other: False

def save(k):
    for step in range(saves):
        try:
            save_mixture(MODELS[(step + k) % 3], path, overwrite=bool(overwrite))
        except FileExistsError as error:
            assert str(error) == f"{path} exists; pass overwrite=True to replace it", error
            os._exit(7)
    os._exit(0)

children = {}
for k in range(n):
    child = os.fork()
    if child == 0:
        try:
            save(k)
        finally:
            os._exit(1)
    children[child] = k
looks, codes = 0, []
while children:
    if overwrite:
        assert is_whole(path)
        looks += 1
    done, status = os.waitpid(-1, os.WNOHANG)
    if done:
        children.pop(done)
        codes.append(os.waitstatus_to_exitcode(status))
assert looks > 3 or not overwrite
print(*sorted(codes))
"""


def saved_at_once(n: int, saves: int, overwrite: bool, swaps: bool, path: str) -> list[str]:
    """Exit codes of savers, in order; a process looks at the model meanwhile."""
    numbers = (str(int(k)) for k in (n, saves, overwrite, swaps))
    return run_python("-W", "error", "-c", SAVERS, *numbers, path).stdout.split()


@pytest.mark.parametrize("swaps", [True, False], ids=["exchange", "two renames"])
@pytest.mark.slow
def test_processes_that_save_at_once_leave_one_whole_model(tmp_path: Path, swaps: bool) -> None:
    path = str(tmp_path / "m")
    save_mixture(MODEL, path)
    assert saved_at_once(4, 15, True, swaps, path) == ["0"] * 4
    assert is_whole(path)
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.slow
def test_of_processes_that_save_without_overwrite_one_is_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    assert saved_at_once(4, 1, False, True, path) == ["0", "7", "7", "7"]
    assert is_whole(path)
    assert os.listdir(tmp_path) == ["m"]


# Races with others, at the worst moments.


@pytest.mark.parametrize("swaps", [True, False])
def test_what_comes_into_a_model_as_it_is_replaced_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool
) -> None:
    path = str(tmp_path / "m")
    save_mixture(MODEL, path)
    take = replacing._take_name

    def late(*arguments: Any) -> bool:
        check = arguments[2]

        def after_check(there: str) -> None:
            check(there)
            (tmp_path / "m" / "notes.txt").write_text("results of a year") if there == path else None

        return take(*arguments[:2], after_check)

    monkeypatch.setattr(replacing, "_take_name", late)
    if not swaps:
        monkeypatch.setattr(replacing, "swap", lambda one, other: False)
    with pytest.raises(FileExistsError, match=r"m holds a model and other files, such as notes\.txt"):
        save_mixture(make_mixture(3, 5, 1, dtype="float32"), path, overwrite=True)
    assert is_whole(path)
    assert (tmp_path / "m" / "notes.txt").read_text() == "results of a year"
    assert os.listdir(tmp_path) == ["m"]


def test_a_model_that_goes_while_it_is_replaced_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, swap = str(tmp_path / "m"), replacing.swap
    save_mixture(MODEL, path)

    def gone(one: str, other: str) -> bool:
        (tmp_path / "m").rename(tmp_path / "elsewhere")
        monkeypatch.setattr(replacing, "swap", swap)
        return swap(one, other)

    monkeypatch.setattr(replacing, "swap", gone)
    save_mixture(make_mixture(3, 5, 1, dtype="float32"), path, overwrite=True)
    assert is_whole(path)
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "m"]


# Order: what a name leads to is on the disk before the name.


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is asked of the disk, in order: (flush, path) or (rename, target)."""
    seen: list[tuple[str, str]] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def watch(name: str, function: Any) -> None:
        def watched(*arguments: Any) -> Any:
            first = arguments[0]
            where = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(arguments[1])
            seen.append((name, where))
            return function(*arguments)

        monkeypatch.setattr(os, function.__name__, watched)

    watch("flush", fsync)
    watch("rename", rename)
    watch("rename", replace)
    return seen


def files_of(folder: Path) -> set[str]:
    return {str(path) for path in [folder, *folder.rglob("*")]}


def test_a_version_and_a_marker_are_on_the_disk_before_their_names(
    tmp_path: Path, events: list[tuple[str, str]]
) -> None:
    run = str(tmp_path / "run")
    storage = ZarrStorage(FolderPlace(f"{run}/versions"))
    storage.write(addresses.Parameters(1, 0), {"weights": MODEL.weights, "means": MODEL.means})
    block = f"{run}/versions/parameters/000001/components-00000"
    named = events.index(("rename", block))
    before = {re.sub(r"\.[0-9a-f]+\.partial", "", path) for kind, path in events[:named] if kind == "flush"}
    assert files_of(Path(block)) <= before
    after = {path for kind, path in events[named:] if kind == "flush"}
    assert {os.path.dirname(block), f"{run}/versions/parameters", f"{run}/versions"} <= after
    groups = {f"{run}/versions{name}/zarr.json" for name in ("", "/parameters", "/parameters/000001")}
    assert groups <= {path for kind, path in events if kind == "flush"}
    del events[:]
    FolderPlace(run).replace("state.json", "{}")
    assert [kind for kind, _ in events] == ["flush", "rename", "flush"]
    assert [path for _, path in events[1:]] == [f"{run}/state.json", run]


def test_a_model_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: Any) -> None:
    path = str(tmp_path / "m")
    save_mixture(MODEL, path)
    swap = replacing.swap
    monkeypatch.setattr(replacing, "swap", lambda *names: events.append(("rename", names[1])) or swap(*names))
    del events[:]
    save_mixture(MODEL, path, overwrite=True)
    named = events.index(("rename", path))
    before = {re.sub(r"m\.[^/]+\.partial/new", "m", path) for kind, path in events[:named] if kind == "flush"}
    assert files_of(Path(path)) <= before
    assert events[named + 1] == ("flush", str(tmp_path))


def test_disks_that_cannot_be_flushed_are_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(22, "Invalid argument")

    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "fsync", refuse)
        save_mixture(MODEL, str(tmp_path / "m"))
    assert is_whole(str(tmp_path / "m"))
    with monkeypatch.context() as patch:  # one that is failing is not
        patch.setattr(disk.os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match=r"cannot be written: Input/output error: '.*/n'"):
            save_mixture(MODEL, str(tmp_path / "n"))
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("known", [None, FILES_OF_VERSIONS], ids=["all", "known"])
def test_trees_are_removed_without_following_links(tmp_path: Path, known: re.Pattern[str] | None) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "zarr.json").write_text("{}")
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "parameters").symlink_to(precious)
    disk.remove_tree(str(tmp_path / "versions"), known)
    (tmp_path / "link").symlink_to(precious)
    disk.remove_tree(str(tmp_path / "link"), known)
    assert (precious / "zarr.json").exists()
    assert (tmp_path / "link").is_symlink()
