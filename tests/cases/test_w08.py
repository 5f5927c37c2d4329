"""W08: no layout of workers and threads computes on more threads than it was given, and kernels let others run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from distributed import Client
from tornado.ioloop import PeriodicCallback

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.runtime.threads import Cores

ROWS = draw(make_mixture(20, 64, 3), 6000, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 60,
    "n_factors": 3,
    "max_iter": 6,
    "max_warmup_iter": 3,
    "tol": 0.0,
    "n_groups": 8,
}
# Where the work of a pass is written down; whoever waits for cores or for the pool stands elsewhere.
COMPUTING = ("e_step.py", "guided.py", "m_step.py", "evaluation.py", "packed.py", "row_block.py")


def watch_threads() -> None:
    """Look at the threads of this process again and again; count how many of them compute."""
    import os
    import sys
    import threading
    import time

    seen: Counter[int] = Counter()
    end = threading.Event()

    def look() -> None:
        while not end.is_set():
            places = [os.path.split(frame.f_code.co_filename) for frame in sys._current_frames().values()]
            seen[sum(os.path.basename(folder) == "em" and name in COMPUTING for folder, name in places)] += 1
            time.sleep(0.001)

    watcher = threading.Thread(target=look, name="watcher", daemon=True)
    sys.modules["vmfa_dask"].watched = seen, end, watcher  # type: ignore[attr-defined]
    watcher.start()


def threads_seen() -> tuple[dict[int, int], int]:
    """How often which number of threads was computing, and how many threads there are for kernels."""
    import sys
    import threading

    seen, end, watcher = sys.modules["vmfa_dask"].watched  # type: ignore[attr-defined]
    end.set()
    watcher.join()
    return dict(seen), sum(thread.name.startswith("vmfa-kernel") for thread in threading.enumerate())


@pytest.mark.long
@pytest.mark.parametrize(("n_workers", "threads"), [(2, 1), (1, 4)])
def test_threads_that_compute(n_workers: int, threads: int) -> None:
    with (
        local_cluster(n_workers, threads) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(lambda: __import__("vmfa_dask"))
        found: list[tuple[dict[int, int], int]] = []
        # A fit is short, and on a busy machine the watcher may miss the moment at which all threads compute.
        for _ in range(5):
            client.run(watch_threads)
            fit_distributed(ROWS, client=client, **OPTIONS)
            found += client.run(threads_seen).values()
            if max(max(seen) for seen, _ in found) >= threads:
                break
    assert max(max(seen) for seen, _ in found) == threads, found  # all of them, and never more
    assert all(in_pool in (0, threads) for _, in_pool in found)


@pytest.mark.long
def test_workers_in_one_process_share_its_cores(monkeypatch: pytest.MonkeyPatch, in_process: Client) -> None:
    # Workers of another cluster live in this process too, with cores of their own. Without a nanny nobody limits the
    # threads of this process but the package itself.
    computing, most, lock = 0, 0, threading.Lock()
    exclusive = Cores.exclusive

    @contextmanager
    def counted(cores: Cores, hurry: bool = False) -> Iterator[None]:
        nonlocal computing, most
        with exclusive(cores, hurry):
            with lock:
                computing += 1
                most = max(most, computing * cores.n_threads)
            yield
            with lock:
                computing -= 1

    monkeypatch.setattr(Cores, "exclusive", counted)
    with (
        local_cluster(2, 2, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        fit = fit_distributed(ROWS, client=client, **OPTIONS)
    assert most == 4
    assert parameters(fit.model) == parameters(fit_local(ROWS, threads=1, **OPTIONS).model)


def test_the_event_loop_gets_turns_while_a_kernel_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    # One call evaluates thousands of rows with hundreds of components. Scheduler, worker and client share one loop
    # here: were the interpreter locked for the time of the call, none of them would send a heartbeat.
    rows = np.random.default_rng(0).normal(size=(6000, 512)).astype(np.float32)
    options: dict[str, Any] = {
        "n_factors": 3,
        "init_params": "uniform",
        "max_warmup_iter": 1,
        "max_iter": 0,
        "n_groups": 1,
    }
    fit_local(rows[:100], n_components=4, **options)  # compiling lets the loop have its turns in any case
    turns, most = 0, 0
    run = Cores.run

    def counted(cores: Cores, function: Any, ranges: Any) -> list[Any]:
        def call(start: int, stop: int) -> Any:
            nonlocal most
            before = turns
            result = function(start, stop)
            most = max(most, turns - before)
            return result

        return run(cores, call, ranges)

    def turn() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(Cores, "run", counted)
    with (
        local_cluster(1, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        ticks = PeriodicCallback(turn, 5)
        client.loop.add_callback(ticks.start)
        fit_distributed(rows, client=client, n_components=800, truncation=40, neighborhood=40, **options)
        client.loop.add_callback(ticks.stop)
    assert most > 5
