"""W07: workers start together with an empty cache of compiled kernels, with a warm one, and with none to write to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.programs import ROOT, run_python
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed

ROWS = draw(make_mixture(4, 6, 3), 600, dtype="float32")
# The fewest kernels: no factors, no chains.
OPTIONS: dict[str, Any] = {
    "n_components": 4,
    "n_factors": 0,
    "init_params": "uniform",
    "max_iter": 2,
    "max_warmup_iter": 1,
    "n_groups": 6,
}


def compiled_and_loaded() -> tuple[int, int]:
    """Signatures of our kernels that this process has compiled, and that it has found in the cache."""
    import gc

    from numba.core.dispatcher import Dispatcher

    kernels = [d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.__module__.startswith("vmfa_dask.")]
    compiled = sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels)
    return compiled, sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels)


def files(cache: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}


@pytest.mark.long
@pytest.mark.timeout(300)  # compiles everything once, beside other work on two slow cores
def test_workers_that_start_together(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "15 s"}),  # shorter than compiling takes
        local_cluster(3, memory_limit="1 GiB", env={"NUMBA_CACHE_DIR": str(tmp_path)}) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert set(client.run(lambda: __import__("numba").config.CACHE_DIR).values()) == {str(tmp_path)}
        workers = client.run(os.getpid)
        cold = fit_distributed(ROWS, client=client, **OPTIONS)
        assert client.run(os.getpid) == workers  # who compiles is not taken for dead
        work = sorted(client.run(compiled_and_loaded).values())
        # One has compiled all kernels, the others have found them.
        assert [compiled > 0 for compiled, _ in work] == [False, False, True], work
        assert min(loaded for _, loaded in work[:2]) > 5, work
        compiled = files(tmp_path)
        assert compiled

        client.restart(timeout=60)
        warm = fit_distributed(ROWS, client=client, **OPTIONS)
        assert [compiled for compiled, _ in client.run(compiled_and_loaded).values()] == [0, 0, 0]
    assert files(tmp_path) == compiled
    assert parameters(warm.model) == parameters(cold.model)


@pytest.mark.slow
def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    # A path below a file: permission bits would not stop a superuser.
    (tmp_path / "file").touch()
    program = """
import warnings
warnings.simplefilter("error")
import numpy as np
from vmfa_dask import fit_local
rows = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
print(len(fit_local(rows, n_components=3, n_factors=3, max_iter=2, max_warmup_iter=1).history))
"""
    assert int(run_python("-c", program, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache")).stdout) >= 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_no_folder_at_all_can_be_written(tmp_path: Path) -> None:
    # As in a container with a read-only installation and without a home: kernels are compiled, and kept nowhere.
    shutil.copytree(ROOT / "vmfa_dask", tmp_path / "vmfa_dask", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "vmfa_dask" / "kernels" / "__pycache__").touch()
    program = """
import importlib, pkgutil
import numpy as np
import vmfa_dask.kernels
for module in pkgutil.iter_modules(vmfa_dask.kernels.__path__):
    importlib.import_module(f"vmfa_dask.kernels.{module.name}")
numbers = np.empty((4, 2))
vmfa_dask.kernels.random.uniforms(0, 1, 0, 0, numbers)
print(vmfa_dask.__file__, ((0 <= numbers) & (numbers < 1)).all())
"""
    nowhere = str(tmp_path / "vmfa_dask" / "__init__.py" / "cache")
    environment = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), nowhere)
    output = run_python("-c", program, folder=tmp_path, **environment).stdout
    assert output.split() == [str(tmp_path / "vmfa_dask" / "__init__.py"), "True"]
