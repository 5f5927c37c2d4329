"""W18: a fitted model is plain data: the cluster may go, and a laptop without Dask opens it."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.clusters import local_cluster
from tests.programs import run_python
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import Fit, MixtureModel, fit_distributed

ROWS = draw(make_mixture(8, 120, 3), 1500, dtype="float32").reshape(-1, 4, 30)

# Opens a model where Dask cannot be imported.
LAPTOP = """
import pickle, sys
sys.modules["dask"] = sys.modules["distributed"] = None
import numpy as np
from vmfa_dask import MixtureModel
rows = np.load(sys.argv[1])
saved = MixtureModel.load(sys.argv[2])
with open(sys.argv[3], "rb") as file:
    pickled = pickle.load(file)
np.savez(sys.argv[4], **{
    f"{name}_{what}": getattr(model, what)(rows)
    for name, model in (("saved", saved), ("pickled", pickled))
    for what in ("score_samples", "predict")
})
"""


@dataclass(frozen=True)
class Fitted:
    """A fit whose cluster is closed, and what its model said while the cluster was there."""

    fit: Fit
    scores: np.ndarray
    labels: np.ndarray
    parameters: bytes


@pytest.fixture(scope="module", params=[True, False], ids=["processes", "one process"])
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    folder = tmp_path_factory.mktemp("w18")
    store = write_store(folder / "rows.zarr", ROWS, 500)
    with (
        local_cluster(2, processes=request.param) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        fit = fit_distributed(
            store, client=client, n_components=10, n_factors=3, max_iter=4, scratch=str(folder), run=str(folder / "run")
        )
        return Fitted(fit, fit.model.score_samples(ROWS), fit.model.predict(ROWS), parameters(fit.model))


class Names(pickle.Unpickler):
    """Notes every class and function that a pickle asks for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.found: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.found.add(module)
        return super().find_class(module, name)


def assert_same(model: MixtureModel, fitted: Fitted) -> None:
    assert type(model) is MixtureModel
    assert parameters(model) == fitted.parameters
    np.testing.assert_array_equal(model.score_samples(ROWS), fitted.scores)
    np.testing.assert_array_equal(model.predict(ROWS), fitted.labels)


@pytest.mark.slow
def test_the_model_outlives_the_cluster(fitted: Fitted) -> None:
    assert_same(fitted.fit.model, fitted)
    assert fitted.fit.model.score(ROWS) == pytest.approx(fitted.scores.mean(), rel=1e-12)
    assert fitted.fit.history[-1].free_energy <= fitted.scores.mean() + 1e-6


def test_copies(fitted: Fitted) -> None:
    assert_same(copy.deepcopy(fitted.fit.model), fitted)
    assert_same(copy.copy(fitted.fit.model), fitted)


@pytest.mark.parametrize("what", ["model", "fit"])
def test_a_pickle_holds_the_parameters_and_no_more(fitted: Fitted, what: str) -> None:
    thing = fitted.fit.model if what == "model" else fitted.fit
    fitted.fit.model.score(ROWS)  # what scoring derives does not stay with the model
    data = pickle.dumps(thing)
    room = 1500 if what == "model" else 1500 + 1000 * len(fitted.fit.history)
    assert len(fitted.parameters) < len(data) < len(fitted.parameters) + room
    names = Names(data)
    opened = names.load()
    assert {module.split(".")[0] for module in names.found} <= {"vmfa_dask", "numpy"}
    assert not any(module.startswith(("vmfa_dask.cluster", "vmfa_dask.store")) for module in names.found)
    assert_same(opened if what == "model" else opened.model, fitted)


def test_saving(fitted: Fitted, tmp_path: Path) -> None:
    fitted.fit.model.save(tmp_path / "model.zarr")
    assert_same(MixtureModel.load(tmp_path / "model.zarr"), fitted)


@pytest.mark.slow
def test_a_process_without_dask(fitted: Fitted, tmp_path: Path) -> None:
    names = ("rows.npy", "model.zarr", "model.pickle", "found.npz")
    rows, saved, pickled, found = (str(tmp_path / name) for name in names)
    np.save(rows, ROWS)
    fitted.fit.model.save(saved)
    Path(pickled).write_bytes(pickle.dumps(fitted.fit.model))
    run_python("-W", "error", "-c", LAPTOP, rows, saved, pickled, found)
    values = np.load(found)
    for name in ("saved", "pickled"):
        np.testing.assert_array_equal(values[f"{name}_score_samples"], fitted.scores)
        np.testing.assert_array_equal(values[f"{name}_predict"], fitted.labels)
