"""Drawn rows have the distribution of the mixture, and are the same whatever draws them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.samples import make_mixture
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.store.results import ResultStore


def test_moments_of_each_component() -> None:
    model = MixtureModel.of(make_mixture(3, 4, 2, dtype="float32"))
    n = 200_000
    rows, components = model.sample(n)
    assert rows.shape == (n, 4)
    assert rows.dtype == np.float64
    for c in range(3):
        part, covariance = rows[components == c], model.covariance(c)
        error = np.sqrt(np.diag(covariance) / len(part))
        assert np.all(np.abs(part.mean(axis=0) - model.means[c]) < 5 * error)
        spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / len(part))
        assert np.all(np.abs(np.cov(part.T) - covariance) < 5 * spread)


def test_scores_of_samples_are_the_negative_entropy() -> None:
    """Of well separated components, whose entropies are known."""
    model = MixtureModel.of(make_mixture(5, 8, 2, spread=50.0))
    entropies = [0.5 * np.linalg.slogdet(2 * np.pi * np.e * model.covariance(c))[1] for c in range(5)]
    expected = model.weights @ (np.log(model.weights) - entropies)
    rows, components = model.sample(50_000, random_state=3)
    assert model.score(rows) == pytest.approx(expected, abs=5 * np.sqrt(8 / 2 / 50_000) * 2)
    np.testing.assert_array_equal(model.predict(rows), components)


def test_density_integrates_to_one() -> None:
    model = MixtureModel.of(make_mixture(3, 2, 1, spread=2.0))
    axis = np.linspace(-25, 25, 1001)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.exp(model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=1e-6)


def test_rows_do_not_depend_on_what_draws_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MixtureModel.of(replace(make_mixture(5, 6, 2), feature_shape=(2, 3), offset=np.arange(6.0)))
    rows, components = model.sample(1000, random_state=7)
    assert rows.shape == (1000, 2, 3)
    few, their = model.sample(77, random_state=7)
    np.testing.assert_array_equal(few, rows[:77])
    np.testing.assert_array_equal(their, components[:77])
    monkeypatch.setattr("vmfa_dask.apply.sampling._BLOCK_BYTES", 48 * 13)
    monkeypatch.setattr("vmfa_dask.apply.sampling._WRITTEN_BYTES", 48 * 100)
    monkeypatch.setattr("vmfa_dask.store.outputs._FEWEST_CHUNK_ROWS", 50)
    monkeypatch.setattr("vmfa_dask.apply.sampling.available_cores", lambda: 3)
    np.testing.assert_array_equal(model.sample(1000, random_state=7)[0], rows)
    stored, of_store = model.sample(1000, random_state=7, out=tmp_path / "rows.zarr")
    assert stored.chunks == (50, 2, 3)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "rows.zarr", mode="r")[:], rows)
    np.testing.assert_array_equal(of_store, components)
    assert model.score(tmp_path / "rows.zarr") == model.score(rows)
    with pytest.raises(FileExistsError, match="holds the results of another call"):
        model.sample(10, out=tmp_path / "rows.zarr")


def test_an_interrupted_sample_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmfa_dask.apply.sampling._WRITTEN_BYTES", 48 * 100)
    monkeypatch.setattr("vmfa_dask.store.outputs._FEWEST_CHUNK_ROWS", 50)
    model, starts, write = MixtureModel.of(make_mixture(5, 6, 2)), [], ResultStore.write

    def interrupt(self: ResultStore, start: int, results: Any) -> None:
        starts.append(start)
        if len(starts) == 4:
            raise KeyboardInterrupt
        write(self, start, results)

    monkeypatch.setattr(ResultStore, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.sample(1000, out=tmp_path / "rows.zarr")
    rows, components = model.sample(1000, out=tmp_path / "rows.zarr")
    assert starts == [0, 100, 200, 300, *range(300, 1000, 100)]
    expected = model.sample(1000)
    np.testing.assert_array_equal(rows[:], expected[0])
    np.testing.assert_array_equal(components, expected[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"n_samples": 0}, "n_samples=0: expected at least 1"), ({"random_state": -1}, "random_state=-1: expected")],
)
def test_sizes_and_seeds_are_checked(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureModel.of(make_mixture(2, 3, 1)).sample(**arguments)


def test_a_fit_of_samples_gives_the_model_back() -> None:
    truth = MixtureModel.of(make_mixture(3, 6, 2, dtype="float32"))
    rows, _ = truth.sample(6000)
    new, _ = truth.sample(6000, random_state=1)
    fitted = fit_local(rows.astype(np.float32), n_components=3, n_factors=2).model
    order = [int(np.argmin(((fitted.means - mean) ** 2).sum(axis=1))) for mean in truth.means]
    np.testing.assert_allclose(fitted.means[order], truth.means, atol=0.25)
    np.testing.assert_allclose(fitted.weights[order], truth.weights, atol=0.03)
    assert 0 < truth.score(new) - fitted.score(new) < 0.03
