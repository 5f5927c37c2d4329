"""H11: no write follows a planted link, and a failed one leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cases.run_folders import contents
from vmfa_dask.store import folder_place
from vmfa_dask.store.folder_place import FolderPlace


def test_a_link_that_is_planted_beside_a_file_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("results of a year")
    place = FolderPlace(str(tmp_path / "run"))
    place.probe()
    monkeypatch.setattr(folder_place, "_new_suffix", lambda: ".partial")  # as if somebody could know it
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
    assert len({folder_place._new_suffix() for _ in range(100)}) == 100
    modes = []

    def look(target: str) -> None:
        modes.append(target)
        os.mkdir(target)

    place = FolderPlace(str(tmp_path))
    place.publish("a", look)
    place.publish("b", look)
    assert len({name.split(".", 1)[1] for name in modes}) == 2


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
