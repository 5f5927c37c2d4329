"""Z02: a store that fails for a moment is asked again; one that fails for good or is damaged is named by its chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.flaky import FlakyFileSystem
from tests.kept import resume
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.store import watched

ROWS = draw(make_mixture(4, 6, 3), 1000, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 4, "tol": 0.0, "n_groups": 2}
LAYOUTS: dict[str, dict[str, Any]] = {
    "compressed": {},
    "plain files": {"compressors": None},
    "shards": {"shards": (200, 6)},
    "plain shards": {"shards": (200, 6), "compressors": None},
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_PAUSES", (0.01, 0.01))


def test_a_store_that_fails_once_changes_nothing(tmp_path: Path, in_process: Client) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 100)
    FlakyFileSystem.told({"c/3/0": (OSError("503 Slow Down"), 1), "c/8/0": (TimeoutError(), 2)})
    fit = fit_distributed(f"flaky://{path}", client=in_process, **OPTIONS)
    assert FlakyFileSystem.requests["c/3/0"] > 1
    assert parameters(fit.model) == parameters(fit_local(path, **OPTIONS).model)


@pytest.mark.parametrize(("error", "requests"), [(PermissionError("403"), 1), (OSError("503 Slow Down"), 3)])
def test_a_store_that_fails_for_good_is_named(
    tmp_path: Path, in_process: Client, error: OSError, requests: int
) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 100)
    FlakyFileSystem.told({"c/3/0": (error, None)})
    message = rf"flaky://{path}: rows .* cannot be read: .*chunk .*c/3/0: {type(error).__name__}: {error}"
    with pytest.raises(OSError, match=message):
        fit_distributed(f"flaky://{path}", client=in_process, **OPTIONS)
    assert FlakyFileSystem.requests["c/3/0"] == requests
    FlakyFileSystem.told({})
    assert in_process.submit(sum, [1, 2]).result(timeout=10) == 3
    assert np.isfinite(fit_distributed(f"flaky://{path}", client=in_process, **OPTIONS).model.score(ROWS))


def half(chunk: Path) -> None:
    chunk.write_bytes(chunk.read_bytes()[: chunk.stat().st_size // 2])


@pytest.mark.parametrize("damage", [half, Path.unlink])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.slow
def test_a_chunk_that_breaks_during_a_run_stops_it_and_is_named(
    tmp_path: Path, processes: Client, layout: str, damage: Any
) -> None:
    path, run, passes = write_store(tmp_path / "x.zarr", ROWS, 100, **LAYOUTS[layout]), str(tmp_path / "run"), []
    chunk = tmp_path / "x.zarr" / "c" / "4" / "0"
    whole = chunk.read_bytes()

    def break_it(record: Any) -> None:
        passes.append(record.iteration)
        if record.iteration == 3:
            damage(chunk)

    with pytest.raises(OSError, match=rf"{path}: rows \d+:\d+ cannot be read: .*c/4/0"):
        fit_distributed(path, client=processes, run=run, progress=break_it, cache_bytes=0, **OPTIONS)
    assert passes[-1] == 3
    assert len(processes.scheduler_info()["workers"]) == 2
    chunk.write_bytes(whole)
    fit, seen = resume(path, processes, run, **OPTIONS)
    assert seen[0] == 4
    assert parameters(fit.model) == parameters(fit_local(path, **OPTIONS).model)
