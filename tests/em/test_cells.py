"""Cells of seeds: near neighbours for components and rows, without comparing all seeds with all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

from tests.em.runs import free_energies, make_context, train
from tests.kept import as_format_1
from tests.samples import draw, fixed_passes, images, make_mixture, parameters, write_store
from vmfa_dask import addresses, fit_distributed, fit_local
from vmfa_dask.em.rows import read_only
from vmfa_dask.run import algorithm
from vmfa_dask.run import settings as settings_module
from vmfa_dask.run.context import RunContext
from vmfa_dask.run.defaults import suited_to_data
from vmfa_dask.run.executor import SerialExecutor
from vmfa_dask.run.row_copies import RowNumbers
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.starts.initialization import initialize
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.seeding import cells as cells_module
from vmfa_dask.seeding.cells import Cells, Centers, group_seeds

OPTIONS: dict[str, Any] = {"n_components": 40, "n_factors": 3, "neighborhood": 6, "init_params": "uniform"}


def distances(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Squared distances of all pairs, from the definition."""
    return np.square(a.astype(np.float64)[:, None] - b.astype(np.float64)[None]).sum(axis=2)


def grouped(seeds: NDArray[Any], n_neighbors: int = 6, n_kept: int = 3, n_threads: int = 1) -> Cells:
    return group_seeds(seeds, np.ones(seeds.shape[1]), n_neighbors, n_kept, Cores(n_threads))


def sizes(cells: Cells) -> NDArray[np.int64]:
    return np.diff(cells.edges)


def test_neighbors_are_the_nearest_seeds() -> None:
    seeds = draw(make_mixture(6, 5, 1), 18).astype(np.float32)  # in four cells, from all of which they are chosen
    cells = grouped(seeds)
    along = seeds[cells.order]
    np.testing.assert_array_equal(cells.neighbors, np.argsort(distances(along, along), axis=1)[:, :6])


@pytest.mark.parametrize("seeds_per_center", [128, 3])  # all of them, and every sixth one
def test_seeds_lie_in_the_nearest_cell_and_are_numbered_along_the_cells(
    seeds_per_center: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "_SEEDS_PER_CENTER", seeds_per_center)
    seeds = draw(make_mixture(6, 5, 1), 400).astype(np.float32)
    cells = grouped(seeds)
    assert sorted(cells.order.tolist()) == list(range(400))
    owners = np.repeat(np.arange(len(cells.centers)), sizes(cells))
    np.testing.assert_array_equal(np.argmin(distances(seeds[cells.order], cells.centers), axis=1), owners)
    assert 10 <= len(cells.centers) <= 40
    assert sizes(cells).min() >= 3
    # Cells that follow each other are neighbours, compared with any two of them.
    apart = np.sqrt(distances(cells.centers, cells.centers))
    assert np.diag(apart, 1).mean() < 0.7 * apart[np.triu_indices(len(apart), 1)].mean()


def test_threads_do_not_matter() -> None:
    seeds = draw(make_mixture(6, 40, 1), 900).astype(np.float32)
    one, three = grouped(seeds), grouped(seeds, n_threads=3)
    for name in ("centers", "order", "neighbors", "edges"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_units_of_features_count() -> None:
    seeds = draw(make_mixture(6, 5, 1), 18).astype(np.float32)
    units = np.array([1.0, 2, 4, 8, 0.5])
    scaled = group_seeds((seeds * units).astype(np.float32), units, 6, 3, Cores(1))
    np.testing.assert_array_equal(scaled.neighbors, grouped(seeds).neighbors)


@pytest.mark.parametrize("kind", ["outliers", "equal", "two"])
def test_no_cell_is_large(kind: str) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=(900, 5)).astype(np.float32)
    if kind == "outliers":  # first, where k-means begins: nearly all others are in one cell of theirs
        seeds[:60] *= 1000
    elif kind == "equal":
        seeds[:] = 1
    else:
        seeds[:] = np.arange(900)[:, None] % 2
    cells = grouped(seeds)
    assert sizes(cells).max() <= 4 * 30
    assert sizes(cells).min() >= 3
    assert sorted(cells.order.tolist()) == list(range(900))
    assert (cells.neighbors[:, 0] == np.arange(900)).all()
    assert all(len(set(row)) == 6 for row in cells.neighbors.tolist())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_seeds(n: int) -> None:
    cells = grouped(draw(make_mixture(2, 3, 1), n).astype(np.float32), min(n, 3), min(n, 2))
    assert cells.neighbors.shape == (n, min(n, 3))
    assert sorted(cells.order.tolist()) == list(range(n))


def test_nearest_of_some_points() -> None:
    points, rows = draw(make_mixture(6, 5, 1), 30).astype(np.float32), draw(make_mixture(6, 5, 1), 50).astype("float32")
    among = np.array([3, 4, 9, 20, 21, 28])
    nearest = Centers(points, np.ones(5), Cores(1)).nearest(read_only(rows), 3, among)
    np.testing.assert_array_equal(nearest, np.argsort(distances(rows, points[among]), axis=1)[:, :3])


def started(rows: NDArray[Any], settings: Settings, n_groups: int = 3) -> tuple[RunContext, NDArray[np.int32], int]:
    """A run after its initialisation, with first kept components of all rows in the order of the data."""
    context = make_context(rows, settings, n_groups)
    n_distinct = initialize(SerialExecutor(context))
    groups = range(len(context.plan.groups))
    kept = np.concatenate([context.storage.read(addresses.Posterior(0, group))["components"] for group in groups])
    numbers = np.concatenate([context.storage.read(RowNumbers(group))["numbers"] for group in groups])
    return context, kept[np.argsort(numbers)], n_distinct


@pytest.mark.parametrize("method", ["uniform", "afkmc2", "k-means++"])
def test_rows_begin_with_the_nearest_seeds_of_their_cell(method: str) -> None:
    data = images(600, (4, 4, 3))
    settings = Settings(**{**OPTIONS, "init_params": method}, locality=True, standardize=False)
    context, kept, n_distinct = started(data, settings)
    rows, seed_rows = data.reshape(600, -1), context.storage.read(addresses.SeedRows())["seed_rows"]
    means, cells = context.mixture(0).means, context.storage.read(addresses.SeedCells())
    np.testing.assert_array_equal(means, rows[seed_rows])
    assert n_distinct == 40
    np.testing.assert_array_equal(kept[seed_rows, 0], np.arange(40))
    assert all(len(set(row)) == 3 for row in kept.tolist())
    others = np.setdiff1d(np.arange(600), seed_rows)
    cell = np.argmin(distances(rows[others], cells["centers"]), axis=1)
    apart = distances(rows[others], means)
    for row, (low, high) in enumerate(zip(cells["edges"][cell], cells["edges"][cell + 1], strict=True)):
        nearest = np.sort(apart[row, low:high])[:3]
        np.testing.assert_allclose(apart[row, kept[others[row]]], nearest, rtol=1e-5)
        assert low <= kept[others[row]].min() <= kept[others[row]].max() < high


def test_the_start_does_not_depend_on_the_groups() -> None:
    data = images(600, (4, 4, 3))
    (one, kept_1, _), (five, kept_5, _) = (started(data, Settings(**OPTIONS, locality=True), n) for n in (1, 5))
    np.testing.assert_array_equal(kept_1, kept_5)
    np.testing.assert_array_equal(one.graph(0).neighbors, five.graph(0).neighbors)
    np.testing.assert_array_equal(one.mixture(0).means, five.mixture(0).means)


def test_uniform_seeds_differ_where_rows_coincide() -> None:
    data = images(600, (4, 4, 3))
    data[::5] = 255
    data[1::10] = 0
    context, _, n_distinct = started(data, Settings(**OPTIONS, locality=True))
    assert n_distinct == len(np.unique(context.mixture(0).means, axis=0)) == 40
    few = np.repeat(images(25, (4, 4, 3)), 24, axis=0)
    context, _, n_distinct = started(few, Settings(**OPTIONS, locality=True))
    assert n_distinct == len(np.unique(context.mixture(0).means, axis=0)) <= 25
    assert len(set(context.storage.read(addresses.SeedRows())["seed_rows"].tolist())) == 40


def test_one_pass_from_cells_is_ahead_of_several_from_random_sets() -> None:
    data = draw(make_mixture(60, 8, 1, seed=3), 6000).astype(np.float32)
    options = fixed_passes(150, 1, neighborhood=6, init_params="uniform", max_warmup_iter=3, max_iter=0)
    cells, random = (
        free_energies(train(make_context(data, Settings(**options, locality=locality)))[0])
        for locality in (True, False)
    )
    assert cells[0] > random[2]
    assert cells[1] >= cells[0]


def test_a_stage_begins_with_cells_too() -> None:
    settings = Settings(**OPTIONS, locality=True, n_init=2, max_warmup_iter=1, max_iter=1)
    state, mixture = train(make_context(images(600, (4, 4, 3)), settings))
    assert np.isfinite(free_energies(state)).all()
    assert mixture.n_components == 40


def test_cells_are_for_many_components() -> None:
    assert [Settings(c).starts_from_cells for c in (800, 1_999, 2_000)] == [False, False, True]
    assert not Settings(5_000, search="exhaustive", truncation=3).starts_from_cells
    assert not Settings(5_000, init_params="noise").starts_from_cells
    assert not Settings.paper(5_000).starts_from_cells
    with pytest.raises(ValueError, match="locality='auto': expected one of"):
        Settings(10, locality="auto")  # type: ignore[arg-type]


def test_defaults_of_many_components() -> None:
    def suited(n_components: int, **asked: Any) -> tuple[str, float]:
        settings = suited_to_data(Settings(n_components, **asked), asked, 10_000_000, 48)
        return settings.init_params, settings.warmup_tol

    assert suited(1_000) == ("afkmc2", 5e-4)
    assert suited(5_000) == ("afkmc2", 5e-3)
    assert suited(20_000) == ("uniform", 5e-3)
    assert suited(20_000, locality=False) == ("afkmc2", 5e-4)
    assert suited(20_000, init_params="k-means++", warmup_tol=1e-4) == ("k-means++", 1e-4)
    assert suited_to_data(Settings(5), {}, 1000, 4).init_params == "pilot"
    assert suited_to_data(Settings(5, locality=True), {"locality"}, 1000, 4).init_params == "afkmc2"


def test_a_run_that_was_begun_before_there_were_cells_resumes_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "_MANY_COMPONENTS", 10)
    data, run = images(300, (5, 5, 3)), tmp_path / "run"
    options = {**OPTIONS, "n_components": 12, "max_warmup_iter": 2, "max_iter": 2}
    expected = fit_local(data, run=run, **options, locality=False)
    as_format_1(run, lambda identity: identity["settings"].pop("locality"))
    assert parameters(fit_local(data, run=run, resume="require", **options).model) == parameters(expected.model)
    with pytest.raises(ValueError, match="locality"):
        fit_local(data, run=run, resume="require", **options, locality=True)
    assert parameters(fit_local(data, **options).model) != parameters(expected.model)


def test_every_executor_gives_the_same_bytes(tmp_path: Path, processes: Client, in_process: Client) -> None:
    path = write_store(tmp_path / "images.zarr", images(1203, (5, 5, 3)), 50)
    options = {**OPTIONS, "locality": True, "n_groups": 5, "max_iter": 2, "max_warmup_iter": 2}
    serial = parameters(fit_local(path, threads=1, **options).model)
    assert parameters(fit_local(path, threads=3, **options).model) == serial
    assert parameters(fit_distributed(path, client=in_process, **options).model) == serial
    assert parameters(fit_distributed(path, client=processes, **options).model) == serial
    assert parameters(fit_local(path, **{**options, "locality": False}).model) != serial


def test_a_kept_run_resumes_from_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = images(1203, (5, 5, 3))
    options = {**OPTIONS, "locality": True, "n_groups": 5, "max_iter": 2, "max_warmup_iter": 2}
    expected = parameters(fit_local(data, **options).model)

    class Killed(Exception):
        pass

    def kill(record: Any) -> None:
        raise Killed

    with monkeypatch.context() as before_the_first_pass:
        before_the_first_pass.setattr(algorithm, "run_pass", lambda *_: kill(None))
        with pytest.raises(Killed):
            fit_local(data, run=tmp_path / "run", checkpoint_share=1.0, **options)
    for _ in range(4):  # once after each pass
        with pytest.raises(Killed):
            fit_local(data, run=tmp_path / "run", checkpoint_share=1.0, progress=kill, **options)
    fit = fit_local(data, run=tmp_path / "run", resume="require", **options)
    assert parameters(fit.model) == expected
