"""Z10: a store four times larger than the memory of all workers streams through them."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pytest
import zarr
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.cluster.compilation import compile_ahead
from vmfa_dask.run.settings import Settings

LIMIT = 400 * 10**6
N_CHUNKS, CHUNK_ROWS, N_FEATURES = 32, 16_384, 768  # 1.6 GB of float32
OPTIONS: dict[str, Any] = {
    "n_components": 50,
    "n_factors": 3,
    "start": make_mixture(50, N_FEATURES, 3),
    "max_warmup_iter": 1,
    "max_iter": 5,
    "tol": 0.0,
    "warmup_tol": 0.0,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Rows of a mixture with other noise in each chunk."""
    path = tmp_path_factory.mktemp("large") / "x.zarr"
    shape = (N_CHUNKS * CHUNK_ROWS, N_FEATURES)
    array = zarr.create_array(path, shape=shape, dtype="float32", chunks=(CHUNK_ROWS, N_FEATURES), compressors=None)
    rows = draw(make_mixture(50, N_FEATURES, 3), CHUNK_ROWS, dtype="float32")
    noise = np.random.default_rng(0).normal(0, 0.3, rows.shape).astype(np.float32)
    for chunk in range(N_CHUNKS):
        array[chunk * CHUNK_ROWS : (chunk + 1) * CHUNK_ROWS] = rows + np.roll(noise, 37 * chunk, axis=1)
    yield str(path)
    for file in sorted(path.rglob("*"), reverse=True):  # pytest keeps folders of several sessions
        file.rmdir() if file.is_dir() else file.unlink()


@contextmanager
def watching(client: Client) -> Iterator[tuple[dict[int, list[int]], set[str]]]:
    """Resident bytes of each worker process, and states of workers, ten times a second."""
    pids = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    sizes: dict[int, list[int]] = defaultdict(list)
    states: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            for process in pids:
                sizes[process.pid].append(process.memory_info().rss)
            states.update(worker["status"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield sizes, states
    finally:
        done.set()
        watcher.join(10)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_more_rows_than_memory(store: str) -> None:
    # A compiler takes 100 MB and more of the process that it works in, once; this is about what rows take.
    compile_ahead(Settings.paper(OPTIONS["n_components"], n_factors=OPTIONS["n_factors"]), np.dtype("float32"))
    with local_cluster(1, 2, memory_limit=LIMIT) as cluster, Client(cluster, set_as_default=False) as client:
        before = sorted(client.run(os.getpid).values())
        with watching(client) as (sizes, states):
            fit = fit_distributed(store, client=client, **OPTIONS)
        assert sorted(client.run(os.getpid).values()) == before  # none was restarted
        spilled = client.run(lambda dask_worker: getattr(dask_worker.data, "spilled_total", (0, 0))[1])
    assert states == {"running"}
    assert set(spilled.values()) == {0}
    for resident in sizes.values():
        assert max(resident) < 0.8 * LIMIT
    stored = N_CHUNKS * CHUNK_ROWS * N_FEATURES * 4
    # Memory that is left serves as a cache; the rest streams through in every pass.
    assert all(0.8 * stored < read <= stored for read in (record.bytes_read for record in fit.history))
    subset = np.asarray(zarr.open_array(store, mode="r")[: N_CHUNKS // 10 * CHUNK_ROWS])
    known = fit_local(subset, **OPTIONS)
    difference = fit.model.score(subset[::10]) - known.model.score(subset[::10])
    assert abs(difference) < 0.01 * abs(known.model.score(subset[::10]))
