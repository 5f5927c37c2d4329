"""W06: several Dask threads enter the kernels of one process, whatever layer Numba has for its own."""

from __future__ import annotations

import threading
from typing import Any

import numba
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(6, 12, 3), 2000, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "max_iter": 4, "max_warmup_iter": 3, "n_groups": 8}


@pytest.fixture(scope="module")
def known() -> bytes:
    """The parameters that one thread gives."""
    return parameters(fit_local(ROWS, threads=1, **OPTIONS).model)


@pytest.mark.slow
def test_one_process_of_four_threads(known: bytes) -> None:
    with (
        local_cluster(1, 4, env={"NUMBA_THREADING_LAYER": "workqueue"}) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before = client.run(lambda: __import__("os").getpid())
        assert client.run(lambda: __import__("numba").config.THREADING_LAYER) == dict.fromkeys(before, "workqueue")
        for _ in range(2):
            assert parameters(fit_distributed(ROWS, client=client, **OPTIONS).model) == known
        assert client.run(lambda: __import__("os").getpid()) == before  # no worker died and was started again


def test_threads_of_this_process(known: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "THREADING_LAYER", "workqueue")
    with (
        local_cluster(2, 4, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert parameters(fit_distributed(ROWS, client=client, **OPTIONS).model) == known


def test_fits_side_by_side_in_one_process(known: bytes, in_process: Client) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(parameters(fit_local(ROWS, threads=2, **OPTIONS).model)))
        for _ in range(2)
    ]
    threads.append(
        threading.Thread(
            target=lambda: found.append(parameters(fit_distributed(ROWS, client=in_process, **OPTIONS).model))
        )
    )
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert found == [known] * 3
