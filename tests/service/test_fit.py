"""The calls that users write: what they accept, what they return, what they say."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, images, make_mixture, make_start, parameters, write_store
from vmfa_dask import IterationRecord, Mixture, MixtureModel, fit_distributed, fit_local
from vmfa_dask.service.inputs import make_settings

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "n_groups": 3, "max_iter": 3, "max_warmup_iter": 2}


def test_a_fit_holds_model_history_and_settings() -> None:
    fit = fit_local(ROWS, **OPTIONS, tol=0.0, warmup_tol=0.0, random_state=4)
    assert isinstance(fit.model, MixtureModel)
    assert (fit.model.n_components, fit.model.n_factors, fit.model.n_features) == (6, 3, 8)
    assert fit.model.mixture.version == 3
    assert [record.phase for record in fit.history] == ["warm-up"] * 2 + ["training"] * 3 + ["final"]
    assert fit.settings.random_state == 4
    assert fit.settings.truncation == 3
    assert not fit.converged
    assert fit.dropped == {}
    assert fit.model.weights.sum() == pytest.approx(1, abs=1e-12)


def test_the_last_record_evaluates_the_returned_parameters() -> None:
    fit = fit_local(ROWS, **OPTIONS, truncation=6)
    assert fit.history[-1].free_energy == pytest.approx(fit.model.score(ROWS), rel=1e-6)


@pytest.mark.parametrize(("tol", "converged"), [(1e-3, True), (0.0, False)])
def test_convergence_is_reported(tol: float, converged: bool) -> None:
    fit = fit_local(ROWS, **{**OPTIONS, "max_iter": 30, "tol": tol})
    training = [record for record in fit.history if record.phase == "training"]
    assert fit.converged is converged
    assert (training[-1].change < tol) is converged
    assert all(record.change >= tol for record in training[1:-1])
    assert (len(training) < 30) is converged


def test_no_iterations_return_the_start() -> None:
    start = make_start(make_mixture(6, 8, 3, dtype="float32"), 400, 3, 4)
    options = {**OPTIONS, "max_iter": 0, "max_warmup_iter": 0, "neighborhood": 4}
    fit = fit_local(ROWS, start=start, **options)
    assert parameters(fit.model) == parameters(start.mixture)
    assert [record.phase for record in fit.history] == ["final"]


def test_starts_of_the_wrong_size_are_refused() -> None:
    start = make_start(make_mixture(6, 8, 3), 400, 3, 4)
    for change, message in [
        ({"n_components": 5}, "n_components is 6, the run has n_components=5"),
        ({"n_factors": 2}, "n_factors is 3, the run has n_factors=2"),
        ({"truncation": 2}, r"start.components: shape \(400, 3\), expected \(400, 2\)"),
        ({"neighborhood": 5}, r"start.graph: shape \(6, 4\), expected \(6, 5\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit_local(ROWS, start=start, **{**OPTIONS, "neighborhood": 4, **change})


def test_progress_is_called_once_per_pass(in_process: Client) -> None:
    seen: list[IterationRecord] = []
    fit = fit_distributed(ROWS, client=in_process, progress=seen.append, **OPTIONS)
    assert tuple(seen) == fit.history


def test_each_pass_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vmfa_dask"):
        fit = fit_local(ROWS, **OPTIONS)
    lines = [record.getMessage() for record in caplog.records if record.name == "vmfa_dask"]
    known = [record.line() for record in fit.history]
    assert [line for line in lines if line.startswith(("warm-up ", "training ", "final "))] == known


def test_nothing_is_printed_and_no_logger_is_touched(capfd: pytest.CaptureFixture[str]) -> None:
    loggers = [logging.getLogger(name) for name in (None, "distributed", "vmfa_dask")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    fit_local(ROWS, **OPTIONS)
    assert [(logger.level, list(logger.handlers)) for logger in loggers] == before
    assert capfd.readouterr() == ("", "")


def test_the_current_client_is_the_default(in_process: Client) -> None:
    with in_process.as_current():
        fit = fit_distributed(ROWS, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


def test_paths_and_images(tmp_path: Path) -> None:
    rows = images(200, (4, 4, 3))
    path = write_store(tmp_path / "x.zarr", rows, 200)  # one chunk: rows are cut as those of an array are
    fits = [fit_local(data, **OPTIONS) for data in (path, tmp_path / "x.zarr", rows, rows.reshape(200, 48))]
    assert len({parameters(fit.model) for fit in fits}) == 1
    assert fits[0].model.feature_shape == (4, 4, 3)
    assert fits[0].model.component_means.shape == (6, 4, 4, 3)
    assert fits[3].model.feature_shape == (48,)


def test_relative_paths_are_those_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Client
) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 60)
    monkeypatch.chdir(tmp_path)
    fit = fit_distributed("x.zarr", client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(path, **OPTIONS).model)


def test_data_is_not_changed() -> None:
    rows = ROWS.copy()
    fit_local(rows, **OPTIONS)
    np.testing.assert_array_equal(rows, ROWS)
    rows.flags.writeable = False
    fit_local(rows, **OPTIONS)


@pytest.mark.parametrize("data", [None, 7, b"x.zarr", {"x": [1.0]}, object()])
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="expected the path or URL of a Zarr store, an array of zarr, xarray"):
        fit_local(data, **OPTIONS)


def test_unknown_settings_are_refused_by_name() -> None:
    with pytest.raises(
        TypeError, match="unknown argument 'n_clusters'; the settings of a run are n_components, n_factors"
    ):
        fit_local(ROWS, n_clusters=3, **OPTIONS)
    with pytest.raises(TypeError, match="sample_weight"):  # never ignored in silence
        fit_local(ROWS, sample_weight=np.ones(400), **OPTIONS)


def test_numbers_of_numpy_are_numbers() -> None:
    settings = make_settings(n_components=np.int64(8), n_factors=np.uint8(2), random_state=np.int32(5))
    assert (settings.n_components, settings.n_factors, settings.random_state) == (8, 2, 5)


@pytest.mark.parametrize(("n_components", "truncation"), [(1, 1), (2, 2), (3, 3), (50, 3)])
def test_default_truncation_suits_few_components(n_components: int, truncation: int) -> None:
    assert make_settings(n_components=n_components).truncation == truncation
    with pytest.raises(
        ValueError, match=f"truncation={n_components + 1}: expected at most n_components={n_components}"
    ):
        make_settings(n_components=n_components, truncation=n_components + 1)


def test_dropped_components_are_named() -> None:
    mixture = make_mixture(6, 8, 3, dtype="float32")
    far = mixture.means.copy()
    far[4] += 1e4
    mixture = Mixture(mixture.weights, far, mixture.loadings, mixture.noise_variances)
    fit = fit_local(ROWS, start=make_start(mixture, 400, 3, 6), **OPTIONS)
    assert fit.dropped == {4: "no row kept it after iteration 2"}
    assert fit.model.n_components == fit.history[-1].n_alive == 5
    assert np.isfinite(fit.model.score(ROWS))


def test_a_model_is_a_start() -> None:
    rows = draw(make_mixture(5, 8, 3), 600, dtype="float32")
    options = {"n_components": 5, "n_factors": 3, "tol": 0.0}
    short = fit_local(rows, **options, max_iter=2)
    longer = fit_local(rows, **options, max_iter=4, start=short.model)
    assert longer.history[-1].free_energy > short.history[-1].free_energy
    with pytest.raises(ValueError, match=r"start.mixture: n_components is 5, the run has n_components=6"):
        fit_local(rows, **{**options, "n_components": 6}, start=short.model)


@pytest.mark.parametrize("method", ["uniform", "k-means++", "k-means+fa", "noise"])
def test_seeding_by_any_method_gives_the_same_bytes(method: str, processes: Client) -> None:
    rows = draw(make_mixture(5, 8, 3), 600, dtype="float32")
    options = {"n_components": 5, "n_factors": 3, "init_params": method, "max_iter": 2, "n_groups": 3}
    assert parameters(fit_distributed(rows, client=processes, **options).model) == parameters(
        fit_local(rows, **options).model
    )
