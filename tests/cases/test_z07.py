"""Z07: a store that was read in the driver can be read in workers that are forked or spawned, and by many threads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from zarr.storage import ZipStore

from tests.clusters import local_cluster
from tests.programs import run_python
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local

OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 3, "tol": 0.0, "n_groups": 4}
ROWS = draw(make_mixture(4, 6, 3), 1000, dtype="float32")
SECONDS = 60

# In a process of its own: the start method of workers is fixed when Dask is imported.
DRIVER = """
import hashlib, sys
import dask
method, path = sys.argv[1:]
dask.config.set({"distributed.worker.multiprocessing-method": method})
import zarr
from distributed import Client, LocalCluster
from tests.cases.test_z07 import OPTIONS
from tests.samples import parameters
from vmfa_dask import fit_distributed
if __name__ == "__main__":
    zarr.open_array(path, mode="r")[:100]  # Zarr's threads and event loop exist before the workers are made
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        with Client(cluster) as client:
            fit = fit_distributed(path, client=client, **OPTIONS)
    print(hashlib.sha256(parameters(fit.model)).hexdigest())
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("rows") / "x.zarr", ROWS, 100)


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_made_after_the_driver_has_read(store: str, tmp_path: Path, method: str) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    done = run_python(str(script), method, store, timeout=SECONDS)
    expected = hashlib.sha256(parameters(fit_local(store, **OPTIONS).model)).hexdigest()
    assert done.stdout.split()[-1] == expected


def test_one_worker_of_eight_threads(store: str) -> None:
    with local_cluster(1, 8) as cluster, Client(cluster, set_as_default=False) as client:
        fit = fit_distributed(store, client=client, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)


def test_an_archive_of_chunks(store: str, tmp_path: Path, processes: Client) -> None:
    path = tmp_path / "x.zarr.zip"
    with ZipStore(path, mode="w") as target:
        array = zarr.create_array(target, shape=ROWS.shape, dtype=ROWS.dtype, chunks=(100, 6))
        array[...] = ROWS
    np.asarray(zarr.open_array(ZipStore(path, mode="r"), mode="r")[:100])
    fit = fit_distributed(str(path), client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(store, **OPTIONS).model)
