"""W10: whatever ends a checkpoint, the one before it is whole: killed drivers, a full disk, a folder nobody may write.

Disks are small or read-only mounts in a namespace of their own, which takes no rights. Drivers are killed in
`tests.chaos`, two of them in its short version and twenty in the long one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.disk_driver import FULL_FROM
from tests.chaos.processes import ROOT
from tests.mounts import MOUNT, NAMESPACE, mounts_are_possible
from tests.samples import draw, make_mixture, write_store
from vmfa_dask import fit_local


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = draw(make_mixture(5, 200, 3), 2_000, dtype="float32")
    return write_store(tmp_path_factory.mktemp("rows") / "rows.zarr", rows, 500)


def on_disk(options: str, case: str, folder: Path, store: str) -> dict[str, Any]:
    """What the driver reports from a disk of its own."""
    if not mounts_are_possible():
        pytest.skip("needs a system that lets users mount: unshare --map-root-user --mount")
    folder.mkdir()
    driver = (sys.executable, "-m", "tests.cases.disk_driver", case, str(folder), store)
    command = [*NAMESPACE, "sh", "-c", MOUNT, options, str(folder), *driver]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_run_and_keeps_its_last_state(tmp_path: Path, store: str) -> None:
    found = on_disk("size=4m", "fills", tmp_path / "disk", store)
    assert found["errno"] == "ENOSPC"
    assert "cannot be written: No space left on device" in found["message"]
    assert found["run"] in found["message"]
    assert found["passes"][-1] == FULL_FROM
    assert found["kept"] == FULL_FROM + 1  # passes 0 to 4: the last one that was told of
    assert found["left"] == []
    assert found["same"]


@pytest.mark.slow
def test_a_disk_that_is_too_small_is_found_before_the_first_pass(tmp_path: Path, store: str) -> None:
    found = on_disk("size=200k", "too small", tmp_path / "disk", store)
    assert (found["passes"], found["errno"]) == ([], "ENOSPC")
    assert "keeping the run takes up to 0.3 MiB, and 0.2 MiB are free" in found["message"]
    assert found["run"] in found["message"]


@pytest.mark.slow
def test_a_read_only_folder_is_found_before_the_first_pass(tmp_path: Path, store: str) -> None:
    found = on_disk("ro", "read-only", tmp_path / "disk", store)
    assert (found["passes"], found["errno"]) == ([], "EROFS")
    assert "cannot be written: Read-only file system" in found["message"]
    assert found["run"] in found["message"]


def test_a_folder_that_cannot_be_made_is_found_before_the_first_pass(tmp_path: Path, store: str) -> None:
    (tmp_path / "file").write_text("")
    passes: list[int] = []
    with pytest.raises(OSError, match=r"cannot be written: .*file/run"):
        fit_local(
            store, n_components=4, run=str(tmp_path / "file" / "run"), progress=lambda r: passes.append(r.iteration)
        )
    assert passes == []
