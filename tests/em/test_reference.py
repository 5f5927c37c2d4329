"""The authors' program, step by step: the traces in tests/fixtures come out, on every executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from vmfa_dask import Fit, fit_distributed, fit_local
from vmfa_dask.run.start import Start
from vmfa_dask.values import Mixture, NeighborGraph

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module", params=["guided", "exact"])
def trace(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arrays of a reference run; the exact one has the rows of the guided one, and every component of every row."""
    with np.load(FIXTURES / "reference_guided_digits.npz") as file:
        rows = file["X"]
    with np.load(FIXTURES / f"reference_{request.param}_digits.npz") as file:
        arrays = {name: file[name] for name in file.files}
    every = np.arange(len(arrays["weights"]), dtype=np.int32)
    return {"neighbors": every[:, None], "components": np.tile(every, (len(rows), 1)), **arrays, "X": rows}


def options(trace: dict[str, Any], precision: str) -> dict[str, Any]:
    mixture = Mixture(trace["weights"], trace["means"], trace["loadings"], trace["noise_variances"])
    return {
        "n_components": mixture.n_components,
        "n_factors": mixture.n_factors,
        "truncation": trace["components"].shape[1],
        "neighborhood": trace["neighbors"].shape[1],
        "random_candidates": 0,
        "reg_covar": float(trace["reg_covar"]),
        "precision": precision,
        "tol": 0.0,
        "warmup_tol": 0.0,
        "max_iter": int(trace["iterations"]),
        "max_warmup_iter": int(trace["warmup_iterations"]),
        "start": Start(mixture, NeighborGraph(trace["neighbors"]), trace["components"]),
    }


def assert_reproduces(fit: Fit, trace: dict[str, Any], energy: float, parameters: float) -> None:
    assert [record.n_joints for record in fit.history] == trace["joints"].tolist()
    np.testing.assert_allclose([record.free_energy for record in fit.history], trace["free_energy"], rtol=energy)
    for name in ("weights", "means", "loadings", "noise_variances"):
        expected = trace[f"final_{name}"]
        np.testing.assert_allclose(getattr(fit.model, name), expected, rtol=0, atol=parameters * np.abs(expected).max())


@pytest.mark.parametrize("n_groups", [1, 4])
def test_serial(trace: dict[str, Any], n_groups: int) -> None:
    fit = fit_local(trace["X"], n_groups=n_groups, **options(trace, "float64"))
    assert_reproduces(fit, trace, 1e-9, 1e-7)


def test_serial_in_single_precision(trace: dict[str, Any]) -> None:
    fit = fit_local(trace["X"], **options(trace, "float32"))
    np.testing.assert_allclose([record.free_energy for record in fit.history], trace["free_energy"], rtol=1e-4)


@pytest.mark.parametrize("cluster", ["in_process", "processes"])
def test_dask(trace: dict[str, Any], cluster: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(cluster)
    fit = fit_distributed(trace["X"], client=client, **options(trace, "float64"))
    assert_reproduces(fit, trace, 1e-9, 1e-7)


def test_best_components(trace: dict[str, Any]) -> None:
    fit = fit_local(trace["X"], **options(trace, "float64"))
    agreement = np.mean(fit.model.predict(trace["X"]) == trace["final_argmax"])
    exact = trace["components"].shape[1] == len(trace["weights"])
    # Guided search keeps the best of what it has seen, `predict` the best of all components.
    assert agreement == 1.0 if exact else 0.95 <= agreement
