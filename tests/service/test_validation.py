"""Held-out rows of a fit: a share of its own rows or others, their curve, early stopping, and kept runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from sklearn.datasets import load_digits

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import Fit, IterationRecord, fit_distributed, fit_local
from vmfa_dask.plot import history
from vmfa_dask.run.held_out import MOST_BYTES, HeldOutRows, TrainingRows
from vmfa_dask.run.row_source import ArrayRows
from vmfa_dask.run.settings import Settings
from vmfa_dask.run.state import RunState
from vmfa_dask.run.validation import automatic_interval

ROWS = draw(make_mixture(5, 8, 3), 400, dtype="float32")
OTHERS = draw(make_mixture(5, 8, 3), 100, seed=2, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 6, "n_factors": 3, "n_groups": 3, "max_iter": 6, "max_warmup_iter": 2, "tol": 0.0,
}  # fmt: skip
# Eight components with three factors for some dozen rows: they fit what is peculiar to them.
TOO_MUCH: dict[str, Any] = {
    **OPTIONS, "n_components": 8, "max_iter": 40, "validation_every": 1, "init_params": "uniform",
}  # fmt: skip
FEW = ROWS[:90]


def curve(fit: Fit) -> list[float]:
    return [record.validation for record in fit.history if record.validation is not None]


@pytest.mark.slow
def test_a_model_that_fits_too_much_is_found_out() -> None:
    rows = load_digits().data.astype(np.float32)
    held_out = HeldOutRows(len(rows), int(0.3 * len(rows)), 0)
    test = rows[held_out.within(0, len(rows))]
    options: dict[str, Any] = {"n_components": 30, "n_factors": 3, "max_iter": 15, "tol": 0.0, "validation": 0.3}
    watched = fit_local(rows, validation_every=1, **options)
    training = [record for record in watched.history if record.phase == "training"]
    best = int(np.argmax([record.validation for record in training]))
    assert 0 < best < 10  # the curve turns ...
    assert all(after.free_energy > before.free_energy for before, after in pairwise(training))  # ... and this one rises
    stopped = fit_local(rows, validation_every=1, patience=3, **options)
    assert stopped.stopped
    assert not stopped.converged
    assert sum(record.phase == "training" for record in stopped.history) == best + 1 + 3
    assert stopped.model.mixture.version == best
    assert stopped.history[-1].validation == training[best].validation == max(curve(watched))
    assert stopped.model.score(test) > watched.model.score(test) + 3
    assert "held-out rows" in repr(stopped)


def test_rows_of_a_share_are_left_out_and_nothing_else_changes() -> None:
    fit = fit_local(ROWS, validation=0.25, **OPTIONS)
    numbers = HeldOutRows(400, 100, 0).within(0, 400)
    without = fit_local(np.delete(ROWS, numbers, axis=0), **OPTIONS)
    assert parameters(fit.model) == parameters(without.model)
    assert [r.free_energy for r in fit.history] == [r.free_energy for r in without.history]
    given = fit_local(np.delete(ROWS, numbers, axis=0), validation=ROWS[numbers], **OPTIONS)
    assert curve(given) == pytest.approx(curve(fit), rel=1e-12)
    assert parameters(given.model) == parameters(without.model)


def test_the_value_is_that_of_the_returned_model() -> None:
    fit = fit_local(ROWS, validation=OTHERS, truncation=6, **OPTIONS)
    assert fit.history[-1].validation == pytest.approx(fit.model.score(OTHERS), rel=1e-5)
    assert fit_local(ROWS, validation=OTHERS.astype(np.float64), truncation=6, **OPTIONS).history[
        -1
    ].validation == pytest.approx(fit.history[-1].validation, rel=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.01])
def test_held_out_rows_are_a_function_of_their_numbers(share: float) -> None:
    held_out = HeldOutRows.share_of(ArrayRows(np.arange(2003.0)[:, None]), share, 7)
    numbers = held_out.within(0, 2003)
    assert len(numbers) == int(share * 2003)
    assert (np.diff(numbers) > 0).all()
    for start, stop in ((0, 1), (5, 700), (699, 1402), (2000, 2003), (10, 10)):
        expected = numbers[(numbers >= start) & (numbers < stop)]
        np.testing.assert_array_equal(held_out.within(start, stop), expected)
    rows = TrainingRows(ArrayRows(np.arange(2003.0)[:, None]), held_out)
    kept = np.delete(np.arange(2003), numbers)
    assert [held_out.source_row(k) for k in range(len(kept))] == kept.tolist()
    parts = [rows.read(a, b)[:, 0] for a, b in ((0, 3), (3, 500), (500, len(kept)))]
    np.testing.assert_array_equal(np.concatenate(parts), kept)
    assert not np.array_equal(HeldOutRows(2003, len(numbers), 8).within(0, 2003), numbers)


def test_no_more_is_held_out_than_memory_takes() -> None:
    class Many(ArrayRows):
        n_rows = 10**9  # type: ignore[assignment]

        def __init__(self) -> None:
            self.feature_shape, self.dtype = (256,), np.dtype(np.float32)

    assert HeldOutRows.share_of(Many(), 0.1, 0).n_held * 1024 == MOST_BYTES


@pytest.mark.slow
def test_workers_and_chunks_do_not_affect_the_draw(processes: Client, in_process: Client, tmp_path: Path) -> None:
    options: dict[str, Any] = {**TOO_MUCH, "validation": 0.3, "patience": 2, "max_iter": 12}
    zarr.create_array(str(tmp_path / "rows.zarr"), data=FEW, chunks=(32, 8))
    local = fit_local(FEW, **options)
    assert local.stopped
    for client, data in ((in_process, FEW), (processes, tmp_path / "rows.zarr"), (processes, FEW)):
        fit = fit_distributed(data, client=client, **options)
        assert parameters(fit.model) == parameters(local.model)
        assert curve(fit) == curve(local)
    others = fit_distributed(ROWS, client=processes, validation=OTHERS, **OPTIONS)
    assert curve(others) == curve(fit_local(ROWS, validation=OTHERS, **OPTIONS))


def test_a_detached_run_takes_its_validation_along(processes: Client, tmp_path: Path) -> None:
    for name, rows in (("rows", ROWS), ("others", OTHERS)):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), data=rows)
    with pytest.raises(ValueError, match="detach=True: expected validation as a share of the rows, or as the path"):
        fit_distributed(
            tmp_path / "rows.zarr", client=processes, run=tmp_path / "run", detach=True, validation=OTHERS, **OPTIONS
        )
    validation = tmp_path / "others.zarr"
    detached = fit_distributed(
        tmp_path / "rows.zarr", client=processes, run=tmp_path / "run", detach=True, validation=validation, **OPTIONS
    )
    assert curve(detached.result(60)) == curve(fit_local(ROWS, validation=OTHERS, **OPTIONS))


class Interrupted(Exception):
    """Ends a fit in a test."""


@pytest.mark.parametrize("validation", [0.3, OTHERS], ids=["share", "rows"])
def test_a_resumed_run_ends_in_the_same_bytes(validation: Any, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"run": tmp_path / "run", "checkpoint_share": 1.0}
    options: dict[str, Any] = {**TOO_MUCH, "validation": validation, "patience": 4}
    undisturbed = fit_local(FEW, **options)
    assert undisturbed.stopped

    def interrupt(record: IterationRecord) -> None:
        if record.iteration in (3, 5, len(undisturbed.history) - 2):
            raise Interrupted

    for _ in range(3):
        with pytest.raises(Interrupted):
            fit_local(FEW, progress=interrupt, **kept, **options)
    resumed = fit_local(FEW, **kept, **options)
    assert parameters(resumed.model) == parameters(undisturbed.model)
    assert curve(resumed) == curve(undisturbed)
    again = fit_local(FEW, **kept, **{**options, "max_iter": 60})
    assert len(again.history) == len(resumed.history)


def test_another_validation_is_another_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_local(ROWS, validation=OTHERS, run=run, validation_every=2, **OPTIONS)
    for change, name in [
        ({"validation": OTHERS[::-1]}, "rows"),
        ({"validation": OTHERS, "patience": 2}, "patience"),
        ({"validation": OTHERS, "validation_every": 3}, "every"),
        ({}, "every"),
    ]:
        keywords: dict[str, Any] = {"validation_every": 2, **change} if change else {}
        with pytest.raises(ValueError, match=f"holds another run: its validation {name} is"):
            fit_local(ROWS, run=run, **keywords, **OPTIONS)
    fit_local(ROWS, run=tmp_path / "plain", **OPTIONS)
    with pytest.raises(ValueError, match="holds another run: its validation every is None"):
        fit_local(ROWS, run=tmp_path / "plain", validation=OTHERS, **OPTIONS)


def test_components_that_later_passes_dropped_are_there_again() -> None:
    fit = fit_local(FEW, **{**TOO_MUCH, "validation": 0.3, "patience": 2})
    assert fit.stopped
    training = [record.iteration for record in fit.history if record.phase == "training"]
    version = fit.model.mixture.version
    assert version > 0
    for k, expected in ((training[version - 1], [5]), (training[version], [])):
        lost = {r.iteration: r.iteration == k for r in fit.history}
        records = [
            replace(r, dropped=(5,) if lost[r.iteration] else (), n_alive=8 - (r.iteration >= k)) for r in fit.history
        ]
        assert list(replace(fit, history=tuple(records)).dropped) == expected
        state = RunState("final", parameters=version, stopped=True, records=tuple(records[:-1]))
        assert state.n_alive(fit.settings) == 8 - len(expected)


def test_the_curve_is_in_records_tables_and_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    fit = fit_local(ROWS, validation=0.25, validation_every=2, verbose=1, **OPTIONS)
    training = [record for record in fit.history if record.phase == "training"]
    assert [record.validation is not None for record in training] == [True, False] * 3
    assert fit.history[0].validation is None  # warm-up leaves the parameters as they are
    assert f"  validation {fit.history[-1].validation:.4f}" in capsys.readouterr().err.splitlines()[-1]
    values = fit.history_dataset().validation
    assert values.attrs["units"] == "nats"
    assert int(values.notnull().sum()) == 4
    labels = {line.get_label(): line for line in history(fit).axes[0].lines}
    np.testing.assert_array_equal(labels["held-out rows"].get_ydata(), curve(fit)[:-1] + curve(fit)[-1:])
    assert "held-out rows" not in {line.get_label() for line in history(fit_local(ROWS, **OPTIONS)).axes[0].lines}


def test_records_of_older_histories_have_no_validation() -> None:
    record = fit_local(ROWS, validation=0.25, **OPTIONS).history[-1]
    older = {name: value for name, value in record.as_dict().items() if name != "validation"}
    assert IterationRecord.from_json(older, 0).validation is None
    assert IterationRecord.from_json(record.as_dict(), 0) == record


def test_evaluations_take_a_twentieth_of_the_work() -> None:
    rows = ArrayRows(np.zeros((10_000, 16), np.float32))
    few, many = Settings(20, 3), Settings(2000, 3)
    assert automatic_interval(rows, few, 100) == 1
    # All of 2000 components in place of 46, for a tenth of the rows: four times the work of a pass.
    assert 60 < automatic_interval(rows, many, 1000) < 100


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"validation": 0.0}, r"validation=0\.0: expected rows, or a share in \(0, 0\.5\]"),
        ({"validation": 0.6}, r"validation=0\.6: expected rows, or a share"),
        ({"validation": np.float64(-0.1)}, r"validation=-0\.1: expected rows, or a share"),
        ({"validation": 0.001}, r"validation=0\.001: less than one of 400 rows"),
        ({"validation": OTHERS[:, :5]}, r"validation: rows of shape \(5,\), expected \(8,\)"),
        ({"validation": OTHERS[:0]}, "validation: .*0"),
        ({"validation": np.where(np.arange(100)[:, None] == 7, np.nan, OTHERS)}, "validation: row 7, feature 0"),
        ({"validation": "no such store"}, "no such store"),
        ({"patience": 2}, r"patience=2: there is nothing to evaluate without validation"),
        ({"validation": 0.1, "patience": 0}, "patience=0: expected an integer >= 1"),
        ({"validation": 0.1, "validation_every": 0.5}, r"validation_every=0\.5: expected an integer >= 1"),
    ],
)
def test_what_cannot_be_evaluated_is_named_before_any_work(keywords: dict[str, Any], message: str) -> None:
    records: list[IterationRecord] = []
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        fit_local(ROWS, progress=records.append, **keywords, **OPTIONS)
    assert not records


def test_values_that_the_dtype_of_the_rows_cannot_hold_are_refused() -> None:
    rows = (ROWS - ROWS.min()).astype(np.uint8)
    whole = fit_local(rows, validation=rows[:50].astype(np.float64), **OPTIONS)
    assert curve(whole) == curve(fit_local(rows, validation=rows[:50], **OPTIONS))
    with pytest.raises(ValueError, match="validation: values of dtype float32 that uint8"):
        fit_local(rows, validation=OTHERS, **OPTIONS)


def test_a_held_out_row_that_is_not_finite_is_named() -> None:
    rows = ROWS.copy()
    number = int(HeldOutRows(400, 100, 0).within(0, 400)[40])
    rows[number, 3] = np.inf
    with pytest.raises(ValueError, match=f"row {number}, feature 3: found inf"):
        fit_local(rows, validation=0.25, **OPTIONS)
    kept = HeldOutRows(400, 100, 0).source_row(200)
    rows = ROWS.copy()
    rows[kept, 2] = np.nan
    with pytest.raises(ValueError, match=f"row {kept}, feature 2: found nan"):
        fit_local(rows, validation=0.25, **OPTIONS)
