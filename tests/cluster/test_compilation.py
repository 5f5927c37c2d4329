"""Compiling ahead: nothing is compiled in a run, or twice. Processes that start together: `tests/cases/test_w07.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vmfa_dask.cluster import compilation
from vmfa_dask.run.settings import Settings

ROOT = Path(__file__).parents[2]


def test_a_cache_that_cannot_be_locked_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_lock_path", lambda: str(tmp_path / "missing" / "folder" / "x.lock"))
    monkeypatch.setattr(compilation, "_compiled", set())
    settings = Settings.paper(3, 1)
    assert compilation.compile_ahead(settings, np.dtype("float32")) > 0
    assert compilation.compile_ahead(settings, np.dtype("float32")) == 0


WARM = """
import importlib, pkgutil, sys
import numpy as np
from numba.core.dispatcher import Dispatcher
import vmfa_dask.kernels as room
from vmfa_dask import fit_local
from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.run import plan
from vmfa_dask.run.settings import Settings

def known():
    modules = [importlib.import_module(f"vmfa_dask.kernels.{m.name}") for m in pkgutil.iter_modules(room.__path__)]
    found = {f"{m.__name__}.{n}": f for m in modules for n, f in vars(m).items() if isinstance(f, Dispatcher)}
    return {(name, str(types)) for name, f in found.items() for types in f.signatures}

way = sys.argv[1]
compile_ahead(Settings(5, n_factors=2, init_params=way), np.dtype("float32"))
before = known()
plan.BLOCK_BYTES = plan._SMALLEST_BLOCK_BYTES = 2**14
rows = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)
fit_local(rows, n_components=5, n_factors=2, init_params=way, max_iter=2, max_warmup_iter=1)
fit_local(rows[:100], n_components=5, n_factors=2, init_params=way, max_iter=2, max_warmup_iter=1)
assert before and not known() - before, known() - before
"""


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("way", ["pilot", "afkmc2"])
def test_after_warming_up_a_run_compiles_nothing_whatever_its_blocks(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", WARM, way], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
