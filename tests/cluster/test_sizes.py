"""Whatever Dask may hold of a run tells it how large it is."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from dask.sizeof import sizeof

from tests.em.runs import make_context
from tests.samples import draw, make_mixture
from vmfa_dask import fit_local
from vmfa_dask.run.algorithm import Training
from vmfa_dask.run.choices import INITIALIZERS
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.settings import Settings

ROWS = draw(make_mixture(5, 40, 3), 700, dtype="float32")


class Weighing(SerialExecutor):
    """Notes of each result what Dask counts and what it takes to send it."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.weights: dict[str, tuple[int, int]] = {}

    def submit(self, name: str, index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        found = super().submit(name, index, function, *arguments)
        self.weights[f"{name} {type(found).__name__}"] = sizeof(found), len(pickle.dumps(found))
        return found


@pytest.mark.parametrize("noise", ["component", "shared"])
@pytest.mark.parametrize("init_params", sorted(INITIALIZERS))
def test_results_of_tasks_tell_their_size(init_params: str, noise: str) -> None:
    numbers = {"n_components": 6, "n_factors": 3, "max_warmup_iter": 1, "max_iter": 1, "tol": 0.0, "warmup_tol": 0.0}
    settings = Settings(**numbers, init_params=init_params, noise=noise)
    executor = Weighing(make_context(ROWS, settings, 20))
    Training(executor).run()
    assert any(name.endswith("PartialResult") for name in executor.weights)
    few = {name: found for name, found in executor.weights.items() if found[0] < found[1] - 1000}
    assert few == {}


def test_fits_tell_their_size() -> None:
    """A detached driver's result waits on the cluster."""
    fit = fit_local(ROWS, n_components=6, n_factors=3, max_iter=2)
    assert sizeof(fit) > len(pickle.dumps(fit)) / 2 > 4 * 6 * 40 * 5 / 2
    assert sizeof(fit) > sizeof(fit.model) >= sum(array.nbytes for array in (fit.model.loadings, fit.model.means))
