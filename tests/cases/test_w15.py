"""W15: a seed gives one result, whatever the timing and the layout of workers and chunks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import Fit, fit_distributed, fit_local

ROWS = draw(make_mixture(6, 8, 3, spread=3.0), 5000, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 10,
    "n_factors": 3,
    "max_iter": 6,
    "max_warmup_iter": 4,
    "random_state": 0,
    "n_groups": 8,
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The same rows in two sizes of chunks."""
    folder = tmp_path_factory.mktemp("w15")
    return {size: write_store(folder / f"{size}.zarr", ROWS, size) for size in (1000, 2500)}


@pytest.fixture(scope="module")
def known(stores: dict[int, str]) -> Fit:
    """One worker of one thread."""
    with local_cluster(1, processes=False) as one, Client(one, set_as_default=False) as client:
        return fit_distributed(stores[1000], client=client, **OPTIONS)


@pytest.mark.parametrize(("n_workers", "threads"), [(1, 4), (4, 1), (4, 2)])
@pytest.mark.slow
def test_layouts_of_workers_give_the_same_bytes(
    stores: dict[int, str], known: Fit, n_workers: int, threads: int
) -> None:
    with local_cluster(n_workers, threads, processes=False) as several, Client(several, set_as_default=False) as client:
        for _ in range(2):
            assert parameters(fit_distributed(stores[1000], client=client, **OPTIONS).model) == parameters(known.model)


@pytest.mark.slow
def test_processes_give_the_same_bytes(stores: dict[int, str], known: Fit, processes: Client) -> None:
    for _ in range(2):
        assert parameters(fit_distributed(stores[1000], client=processes, **OPTIONS).model) == parameters(known.model)


def test_other_chunks_give_the_same_labels_and_score(stores: dict[int, str], known: Fit, in_process: Client) -> None:
    fit = fit_distributed(stores[2500], client=in_process, **OPTIONS)
    assert np.mean(fit.model.predict(ROWS) == known.model.predict(ROWS)) >= 0.999
    assert fit.model.score(ROWS) == pytest.approx(known.model.score(ROWS), abs=1e-5)


def test_another_seed_gives_another_result(stores: dict[int, str], known: Fit, in_process: Client) -> None:
    fit = fit_distributed(stores[1000], client=in_process, **{**OPTIONS, "random_state": 1})
    assert not np.allclose(fit.model.means, known.model.means[: fit.model.n_components], atol=1e-3)


@pytest.mark.slow
def test_global_generators_are_untouched(stores: dict[int, str], in_process: Client) -> None:
    numbers = np.random.get_state()[1].tolist()  # noqa: NPY002 (the global state is what is checked)
    fit_distributed(stores[1000], client=in_process, **OPTIONS)
    before = random.getstate()  # of the standard library; Dask itself draws from it
    fit_local(stores[1000], **OPTIONS)
    assert random.getstate() == before
    assert np.random.get_state()[1].tolist() == numbers  # noqa: NPY002
