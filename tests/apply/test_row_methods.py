"""Posteriors, factors and reconstructions against dense twins; results in stores; what a model keeps in memory."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from tests.samples import draw, images, make_mixture, write_store
from tests.twins import inference as twin
from tests.twins.mixture import Dense
from vmfa_dask import MixtureModel, SparseProbabilities
from vmfa_dask.apply import inference
from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.row_functions import RowFunction, row_function
from vmfa_dask.values import Mixture

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("score_samples", {}),
    ("predict", {}),
    ("predict_proba", {}),
    ("predict_proba", {"truncation": 2}),
    ("transform", {}),
    ("transform", {"weighted": True}),
    ("reconstruct", {}),
    ("reconstruct", {"truncation": 2}),
]


def overlapping(stored: str, n_factors: int = 3) -> tuple[MixtureModel, NDArray[Any]]:
    """A model whose components overlap, with an offset where rows are floats, and rows of it."""
    precision = "float64" if stored == "float64" else "float32"
    mixture = make_mixture(6, 11, n_factors, dtype=precision, spread=0.5)
    if stored == "uint8":
        mixture = replace(mixture, means=mixture.means + np.float32(20))
    else:
        mixture = replace(mixture, offset=np.linspace(-3, 3, 11))
    return MixtureModel.of(mixture), draw(mixture, 60, dtype=stored)


def arrays(results: Any) -> dict[str, NDArray[Any]]:
    """Results in memory or in a store by name."""
    if isinstance(results, SparseProbabilities):
        return dict(vars(results))
    if isinstance(results, zarr.Group):
        return {name: np.asarray(array[...]) for name, array in results.arrays()}
    return {"": np.asarray(results[...])}


def assert_same(results: Any, expected: Any) -> None:
    """Bit for bit."""
    found, known = arrays(results), arrays(expected)
    assert found.keys() == known.keys()
    for name, array in known.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(("stored", "rounding"), [("float64", 1e-10), ("float32", 2e-5), ("uint8", 2e-5)])
def test_results_are_those_of_the_definition(stored: str, rounding: float) -> None:
    model, rows = overlapping(stored)
    dense, wide = Dense.of(model), rows.astype(np.float64)
    close = {"rtol": rounding, "atol": rounding}
    known = twin.posteriors(dense, wide)
    assert ((known > 0.05).sum(axis=1) > 1).sum() > 10  # the rows do overlap
    np.testing.assert_allclose(model.predict_proba(rows), known, **close)
    np.testing.assert_allclose(model.transform(rows), twin.factors(dense, wide, False), **close)
    np.testing.assert_allclose(model.transform(rows, weighted=True), twin.factors(dense, wide, True), **close)
    for truncation in (None, 1, 2, 6):
        expected = twin.reconstructions(dense, wide, truncation)
        np.testing.assert_allclose(model.reconstruct(rows, truncation), expected, rtol=rounding, atol=20 * rounding)


@pytest.mark.parametrize("truncation", [1, 2, 6])
def test_sparse_probabilities(truncation: int) -> None:
    model, rows = overlapping("float64")
    known = twin.posteriors(Dense.of(model), rows)
    kept = model.predict_proba(rows, truncation)
    assert (kept.components.dtype, kept.components.shape) == (np.int32, (60, truncation))
    np.testing.assert_array_equal(kept.components, np.argsort(-known, axis=1)[:, :truncation])
    np.testing.assert_allclose(kept.captured, np.sort(known, axis=1)[:, ::-1][:, :truncation].sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(kept.to_dense(6), twin.posteriors(Dense.of(model), rows, truncation), atol=1e-10)
    np.testing.assert_allclose(kept.probabilities.sum(axis=1), 1, rtol=1e-14)
    with pytest.raises(ValueError, match="n_components=2: expected at least"):
        kept.to_dense(2)


def test_far_rows_have_probabilities() -> None:
    model = MixtureModel([0.5, 0.5], [[-5.0], [5.0]], np.zeros((2, 0, 1)), np.ones((2, 1)))
    np.testing.assert_allclose(model.predict_proba([[0.0]]), [[0.5, 0.5]])
    wide = make_mixture(5, 7, 3, dtype="float32")
    for far in (MixtureModel.of(wide), MixtureModel.of(replace(wide, means=wide.means.astype(np.float64)))):
        for scale in (1e4, 1e30, 1e160, 1e300):
            rows = np.array([[1.0], [-1.0], [0.5]]) * np.full((3, 7), scale)
            dense, kept = far.predict_proba(rows), far.predict_proba(rows, truncation=2)
            for probabilities in (dense, kept.probabilities):
                assert np.isfinite(probabilities).all()
                np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
            np.testing.assert_array_equal(dense.argmax(axis=1), far.predict(rows))
            np.testing.assert_array_equal(kept.components[:, 0], far.predict(rows))
            assert (kept.components[:, 0] != kept.components[:, 1]).all()
            np.testing.assert_allclose(kept.captured, 1)
            # So far away the means do not matter: twice the row has twice the factors.
            np.testing.assert_allclose(far.transform(rows), 2 * far.transform(rows / 2), rtol=1e-2)
            assert np.isfinite(far.reconstruct(rows)).all()


def test_components_of_weight_zero_are_last() -> None:
    m = make_mixture(4, 5, 3, spread=0.5)
    model = MixtureModel([0.5, 0, 0.25, 0.25], m.means, m.loadings, m.noise_variances)
    rows, of_others = draw(m, 20), MixtureModel.of(model.mixture)
    assert (of_others.n_components, model.n_components) == (3, 4)
    np.testing.assert_array_equal(model.predict_proba(rows)[:, [0, 2, 3]], of_others.predict_proba(rows))
    kept = model.predict_proba(rows, truncation=4)
    np.testing.assert_array_equal(kept.components[:, 3], 1)
    np.testing.assert_array_equal(kept.to_dense(4), model.predict_proba(rows))
    np.testing.assert_array_equal(model.reconstruct(rows), of_others.reconstruct(rows))


def test_reconstructions_have_the_shape_of_rows() -> None:
    m = make_mixture(3, 12, 3, dtype="float32")
    model = MixtureModel(m.weights, m.means, m.loadings, m.noise_variances, (2, 2, 3))
    rows = images(40, (2, 2, 3))
    assert model.reconstruct(rows).shape == (40, 2, 2, 3)
    np.testing.assert_array_equal(model.reconstruct(rows), model.reconstruct(rows.reshape(40, 12)))


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_neither_row_blocks_nor_threads_matter(
    monkeypatch: pytest.MonkeyPatch, method: str, options: dict[str, Any]
) -> None:
    model, rows = overlapping("float32")
    rows = np.concatenate([rows, rows[:1] * np.float32(1e15), rows[:3] * np.float32(1e25)])
    expected = getattr(model, method)(rows, **options)
    for block_rows, n_threads in ((1, 1), (7, 2), (61, 3)):
        monkeypatch.setattr(Evaluator, "block_rows", block_rows)
        evaluator = Evaluator(model.mixture, n_threads)
        results = row_function(model.mixture, method, options).of_range(evaluator, inference_rows(rows))
        assert_same(SparseProbabilities(**results) if len(results) > 1 else next(iter(results.values())), expected)


def inference_rows(rows: NDArray[Any]) -> Any:
    """Rows in memory as a source."""
    from vmfa_dask.run.row_source import ArrayRows

    return ArrayRows(rows)


@pytest.mark.parametrize(
    ("method", "options", "error", "message"),
    [
        ("predict_proba", {"truncation": 0}, ValueError, "truncation=0: expected None or 1 to n_components=6"),
        ("predict_proba", {"truncation": 2.0}, ValueError, r"truncation=2.0: expected None or 1 to"),
        ("reconstruct", {"truncation": 7}, ValueError, "truncation=7: expected None or 1 to n_components=6"),
        ("transform", {"weighted": "no"}, ValueError, "weighted='no': expected True or False"),
    ],
)
def test_options_outside_their_range_are_refused(
    method: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model, rows = overlapping("float32")
    with pytest.raises(error, match=message):
        getattr(model, method)(rows, **options)


@pytest.mark.parametrize("method", ["predict_proba", "transform", "reconstruct"])
def test_what_is_no_row_is_refused(method: str) -> None:
    function = getattr(overlapping("float32")[0], method)
    for x, message in [
        (np.zeros((3, 5)), "rows have 5 features, the model has 11"),
        (np.zeros((0, 11)), "holds no values"),
        (np.zeros(11), r"reshape\(1, -1\)"),
        (np.full((4, 11), np.nan), "row 0, feature 0: found nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            function(x)


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_stores_hold_what_memory_does(tmp_path: Path, method: str, options: dict[str, Any]) -> None:
    model, rows = overlapping("float32")
    source, expected = write_store(tmp_path / "x.zarr", rows, 7), getattr(model, method)(rows, **options)
    out = getattr(model, method)(source, **options, out=tmp_path / "out.zarr")
    assert_same(out, expected)
    assert_same(zarr.open(tmp_path / "out.zarr", mode="r"), expected)


def test_open_arrays_of_any_chunks_are_filled(tmp_path: Path) -> None:
    model, rows = overlapping("float32")
    expected = model.reconstruct(rows)
    layouts: list[dict[str, Any]] = [
        {"chunks": (7, 4)},
        {"chunks": (60, 11)},
        {"chunks": (5, 11), "shards": (20, 11)},
        {"chunks": (9, 11), "zarr_format": 2},
    ]
    for k, layout in enumerate(layouts):
        array = zarr.create_array(tmp_path / f"{k}.zarr", shape=rows.shape, dtype="float64", **layout)
        assert_same(model.reconstruct(rows, out=array), expected)
    narrow = zarr.create_array(MemoryStore(), shape=rows.shape, dtype="float32", chunks=(8, 11))
    assert_same(model.reconstruct(rows, out=narrow), expected.astype(np.float32))
    labels = zarr.create_array(MemoryStore(), shape=(60,), dtype="uint8", chunks=(8,))
    assert_same(model.predict(rows, out=labels), model.predict(rows).astype(np.uint8))
    assert_same(model.predict(rows[::-1], out=labels), model.predict(rows)[::-1].astype(np.uint8))  # another call
    group = zarr.create_group(MemoryStore())
    assert_same(model.predict_proba(rows, truncation=2, out=group), model.predict_proba(rows, truncation=2))
    own = zarr.open_array(write_store(tmp_path / "rows.zarr", rows, 9), mode="r+")
    with pytest.raises(ValueError, match="out: these are the rows themselves"):
        model.reconstruct(own, out=own)
    short = zarr.create_array(MemoryStore(), shape=(59,), dtype="int64")
    floats = zarr.create_array(MemoryStore(), shape=(60,), dtype="float32")
    for array, message in [
        (short, r"component has shape \(59,\), expected \(60,\)"),
        (floats, "component has dtype float32, expected an integer that holds 5"),
        (zarr.open_array(tmp_path / "0.zarr", mode="r"), "it was opened for reading only"),
        (zarr.create_group(MemoryStore()), "found a group of zarr, expected an array"),
    ]:
        with pytest.raises(ValueError, match=f"out: {message}"):
            model.predict(rows, out=array)
    with pytest.raises(TypeError, match="out: found int, expected a path"):
        model.predict(rows, out=3)


@pytest.mark.parametrize("options", [{}, {"truncation": 2}])
def test_interrupted_calls_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    model, rows = overlapping("float32")
    monkeypatch.setattr("vmfa_dask.apply.streaming._MOST_BLOCKS", 1)
    monkeypatch.setattr("vmfa_dask.store.outputs._FEWEST_CHUNK_ROWS", 7)
    monkeypatch.setattr(Evaluator, "block_rows", 5)
    expected, out = model.predict_proba(rows, **options), tmp_path / "out.zarr"
    starts: list[int] = []
    compute = RowFunction.of_range

    def fail_at_the_fourth(self: Any, evaluator: Any, source: Any, start: int = 0, stop: int | None = None) -> Any:
        starts.append(start)
        if len(starts) == 4:
            raise KeyboardInterrupt
        return compute(self, evaluator, source, start, stop)

    monkeypatch.setattr(RowFunction, "of_range", fail_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        model.predict_proba(rows, **options, out=out)
    assert_same(model.predict_proba(rows, **options, out=out), expected)
    assert starts == [0, 7, 14, 21, *range(21, 60, 7)]
    model.predict_proba(rows, **options, out=out)  # complete: nothing is computed
    assert len(starts) == 10


def test_models_without_factors(tmp_path: Path) -> None:
    m = make_mixture(3, 5, 0, spread=0.5)
    model, rows = MixtureModel.of(m), draw(m, 20)
    assert model.transform(rows).shape == model.transform(rows, out=tmp_path / "out.zarr").shape == (20, 0)
    np.testing.assert_allclose(model.reconstruct(rows), model.predict_proba(rows) @ m.means, rtol=1e-12)


def test_outputs_of_others_stay(tmp_path: Path) -> None:
    model, rows = overlapping("float32")
    model.predict(rows, out=tmp_path / "labels.zarr")
    write_store(tmp_path / "rows.zarr", rows, 7)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    for call, message in [
        (lambda: model.predict(rows + 1, out=tmp_path / "labels.zarr"), "holds the results of another call"),
        (lambda: model.score_samples(rows, out=tmp_path / "labels.zarr"), "holds the results of another call"),
        (lambda: model.predict(rows, out=tmp_path / "rows.zarr"), "holds other data"),
        (lambda: model.predict(rows, out=tmp_path / "folder"), "is a folder with other files"),
        (lambda: model.predict(rows, out=tmp_path / "folder" / "file"), "is a file"),
    ]:
        with pytest.raises(FileExistsError, match=message):
            call()
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "labels.zarr", mode="r")[...], model.predict(rows))


def test_a_model_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[Mixture] = []

    class Counting(Evaluator):
        def __init__(self, mixture: Mixture) -> None:
            packed.append(mixture)
            super().__init__(mixture)

    monkeypatch.setattr("vmfa_dask.apply.packed_model.Evaluator", Counting)
    model, rows = overlapping("float32")
    other, size = copy.deepcopy(model), len(pickle.dumps(model))
    threads = [threading.Thread(target=model.predict, args=(rows,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.bounds(rows)
    assert len(packed) == 1
    assert model == other
    assert len(pickle.dumps(model)) == size
    assert pickle.loads(pickle.dumps(model)).predict(rows).tolist() == model.predict(rows).tolist()
    monkeypatch.setattr(inference.os, "getpid", lambda: -1)  # as in a process that was forked
    monkeypatch.setattr("vmfa_dask.apply.packed_model.os.getpid", lambda: -1)
    model.predict(rows)
    assert len(packed) == 3
