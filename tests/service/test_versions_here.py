"""Where the versions of a run are: in memory, in files of one process, or in a folder of several with room for them."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, fixed_passes, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.run.projection import stored_bytes
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.service import exchange_folder
from vmfa_dask.service.exchange_folder import check_room, versions_here
from vmfa_dask.store.exchange import ExchangeFolder

ROWS = draw(make_mixture(8, 9, 3, spread=2.0), 700).astype(np.float32)
OPTIONS = fixed_passes(8, 3, preset="paper", max_warmup_iter=2, max_iter=3, verbose=0)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Every model counts as a large one; the folders that are used."""
    monkeypatch.setattr(exchange_folder, "FILES_FROM_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    used: list[str] = []

    class Noting(ExchangeFolder):
        def __init__(self, folder: str) -> None:
            super().__init__(folder)
            used.append(folder)

    monkeypatch.setattr(exchange_folder, "ExchangeFolder", Noting)
    return used


def test_files_and_memory_give_the_same_bytes(
    files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fit = fit_local(ROWS, **OPTIONS)
    with local_cluster(1, processes=False) as cluster, Client(cluster, set_as_default=False) as client:
        on_cluster = fit_distributed(ROWS, client=client, scratch=tmp_path, **OPTIONS)
    kept = fit_local(ROWS, run=tmp_path / "run", **OPTIONS)
    assert len(files) == 3
    assert files[2].startswith(str(tmp_path / "run"))
    assert not any(Path(path).exists() for path in files)
    monkeypatch.undo()
    known = fit_local(ROWS, **OPTIONS)
    assert len(files) == 3
    for found in (fit, on_cluster, kept):
        assert parameters(found.model) == parameters(known.model)
        assert [r.free_energy for r in found.history] == [r.free_energy for r in known.history]


def test_without_room_they_stay_in_memory(
    files: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings, rows = Settings(8, 3), ArrayRows(ROWS)
    needed = stored_bytes(rows, settings)
    assert needed >= 3 * 8 * (9 * 5 * 4 + 8) + 2 * 700 * 3 * 4
    for free, n_used in ((needed, 1), (needed - 1, 1)):
        usage: Any = SimpleNamespace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        with versions_here(None, None, rows, settings):
            assert len(files) == n_used
    assert "versions of the parameters stay in memory" in caplog.text


def test_a_folder_without_room_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings, rows = Settings(8, 3), ArrayRows(ROWS)
    needed = stored_bytes(rows, settings, shared=True) + ROWS.nbytes
    for free in (needed, needed - 1):
        usage: Any = SimpleNamespace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        if free == needed:
            check_room(str(tmp_path), rows, settings)
            continue
        with pytest.raises(OSError, match=r"exchange up to 0 MiB there, and 0 MiB are free; scratch=folder") as refused:
            check_room(str(tmp_path), rows, settings)
        assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, str(tmp_path))
    check_room("s3://bucket/run", rows, settings)
