"""Inference on a cluster gives the bytes of inference in memory, and continues after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import zarr
from distributed import Client

from tests.samples import draw, make_mixture, write_store
from vmfa_dask import MixtureModel, SparseProbabilities, infer
from vmfa_dask.service import inference, row_tasks

MODEL = MixtureModel.of(make_mixture(6, 8, 3, dtype="float32", spread=0.5))
ROWS = draw(MODEL, 500, dtype="float32")


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks and chunks for few rows; workers, which are other processes, keep their own sizes of row blocks."""
    monkeypatch.setattr("vmfa_dask.store.outputs._FEWEST_CHUNK_ROWS", 30)
    monkeypatch.setattr(inference, "rows_per_write", lambda block_rows, row_bytes: 50)


def assert_same(output: Any, expected: Any) -> None:
    """Bit for bit."""
    if isinstance(expected, SparseProbabilities):
        for name, values in vars(expected).items():
            np.testing.assert_array_equal(output[name][...], values)
    else:
        assert output.dtype == expected.dtype
        np.testing.assert_array_equal(output[...], expected)


@pytest.mark.parametrize(
    ("method", "options"),
    [("predict", {}), ("predict_proba", {"truncation": 2}), ("transform", {"weighted": True}), ("reconstruct", {})],
)
def test_processes_write_what_memory_gives(
    tmp_path: Path, processes: Client, method: str, options: dict[str, Any]
) -> None:
    store = write_store(tmp_path / "rows.zarr", ROWS, 70)
    out = infer(MODEL, store, method, client=processes, out=tmp_path / "out.zarr", scratch=tmp_path, **options)
    assert_same(out, getattr(MODEL, method)(ROWS, **options))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zarr", "rows.zarr"]
    assert processes.run(lambda: list(row_tasks._opened)) == {worker: [] for worker in processes.run(int)}


def test_saved_models_and_rows_in_memory(tmp_path: Path, processes: Client) -> None:
    MODEL.save(tmp_path / "model.zarr")
    array = zarr.create_array(tmp_path / "out.zarr", shape=(500,), dtype="int32", chunks=(33,))
    for data in (ROWS[::-1], dask.array.from_array(ROWS, chunks=(90, 3))):
        infer(tmp_path / "model.zarr", data, client=processes, out=array)
        np.testing.assert_array_equal(array[...], MODEL.predict(np.asarray(data)))


def test_interrupted_inference_continues(
    tmp_path: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    note = inference.ResultStore.note

    def interrupt(self: Any, start: int, stop: int) -> None:
        note(self, start, stop)
        calls.append(start)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(inference.ResultStore, "note", interrupt)
    out = tmp_path / "out.zarr"
    with pytest.raises(KeyboardInterrupt, match=r"the inference was interrupted \([1-9]\d+ of 500 rows are complete\)"):
        infer(MODEL, ROWS, "score_samples", client=in_process, out=out)
    infer(MODEL, ROWS, "score_samples", client=in_process, out=out)
    assert sorted(calls) == list(range(0, 500, 90))
    assert_same(zarr.open_array(out, mode="r"), MODEL.score_samples(ROWS))
    assert not row_tasks._opened


def test_object_stores_hold_results(bucket: str, in_process: Client) -> None:
    infer(MODEL, ROWS, client=in_process, out=f"{bucket}/labels.zarr")
    labels = MODEL.predict(ROWS, out=f"{bucket}/labels.zarr")  # the same call: complete
    np.testing.assert_array_equal(labels[...], MODEL.predict(ROWS))
    kept = MODEL.predict_proba(ROWS, truncation=2, out=f"{bucket}/probabilities.zarr")
    np.testing.assert_array_equal(kept["components"][...], MODEL.predict_proba(ROWS, truncation=2).components)


def test_few_tasks_are_in_flight(tmp_path: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_IN_FLIGHT", 1)
    most = 0
    note = inference.ResultStore.note

    def count(self: Any, start: int, stop: int) -> None:
        nonlocal most
        most = max(most, sum(str(key).startswith("('infer-") for key in in_process.futures))
        note(self, start, stop)

    monkeypatch.setattr(inference.ResultStore, "note", count)
    infer(MODEL, ROWS, client=in_process, out=tmp_path / "out.zarr")
    assert 1 <= most <= 2


def test_bad_calls_are_refused(tmp_path: Path, processes: Client) -> None:
    out, broken = tmp_path / "out.zarr", ROWS.copy()
    broken[321, 4] = np.nan
    store = write_store(tmp_path / "broken.zarr", broken, 100)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: infer(MODEL, ROWS[:, :5], client=processes, out=out), ValueError, "data: rows have 5 features"),
        (lambda: infer(MODEL, ROWS, "fit", client=processes, out=out), ValueError, "method='fit': expected one of"),
        (
            lambda: infer(MODEL, ROWS, "predict", client=processes, out=out, truncation=1),
            TypeError,
            "unknown option 'truncation' of 'predict'; its options: none",
        ),
        (
            lambda: infer(MODEL, ROWS, client=processes, out=zarr.create_array({}, shape=(500,), dtype="int64")),
            TypeError,
            "other processes cannot open this array of zarr",
        ),
        (lambda: infer(tmp_path / "no.zarr", ROWS, client=processes, out=out), FileNotFoundError, "no model is stored"),
        (lambda: infer(MODEL, store, client=processes, out=out), ValueError, r"row 321 \(chunk 3\), feature 4"),
    ]
    for call, kind, message in calls:
        with pytest.raises(kind, match=message):
            call()
