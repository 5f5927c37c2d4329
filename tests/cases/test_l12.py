"""L12: data frames of pandas and of Dask are rows everywhere; sizes are found, or the way to them is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import dask.dataframe
import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_distributed, fit_local

pandas = pytest.importorskip("pandas")

ROWS = draw(make_mixture(3, 4, 1), 60).round(1)
MODEL = MixtureModel.of(make_mixture(3, 4, 1))
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2, "n_groups": 2}
METHODS = ["score_samples", "score", "predict", "bounds", "free_energy"]
CALLS: list[Callable[..., Any]] = [
    lambda data: fit_local(data, **OPTIONS),
    *(lambda data, method=method: getattr(MODEL, method)(data) for method in METHODS),
]


def frame(rows: np.ndarray = ROWS) -> Any:
    return pandas.DataFrame(rows, columns=list("abcd"), index=np.arange(len(rows)) * 1000 + 7)


def in_parts(data: Any, n: int = 3) -> Any:
    return dask.dataframe.from_pandas(data, npartitions=n)


def test_the_same_numbers_as_an_array() -> None:
    expected = parameters(fit_local(ROWS, **OPTIONS).model)
    for data in (frame(), in_parts(frame())):
        assert parameters(fit_local(data, **OPTIONS).model) == expected
        for method in METHODS[:3]:
            np.testing.assert_allclose(getattr(MODEL, method)(data), getattr(MODEL, method)(ROWS), rtol=1e-13)
        assert MODEL.bounds(data).score == pytest.approx(MODEL.bounds(ROWS).score, rel=1e-13)
        assert MODEL.free_energy(data) == pytest.approx(MODEL.free_energy(ROWS), rel=1e-9)


@pytest.mark.parametrize("kind", ["pandas", "dask"])
def test_workers(processes: Client, in_process: Client, kind: str) -> None:
    data = frame() if kind == "pandas" else in_parts(frame())
    expected = parameters(fit_local(ROWS, **OPTIONS).model)
    for client in (processes, in_process):
        assert parameters(fit_distributed(data, client=client, **OPTIONS).model) == expected


def test_partitions_that_live_on_a_cluster(processes: Client) -> None:
    held = in_parts(frame())
    with processes.as_current():
        held = held.persist()
    fit = fit_distributed(held, client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(ROWS, **OPTIONS).model)


@pytest.mark.parametrize(
    ("dtypes", "common"),
    [
        (["uint8", "uint8"], "uint8"),
        (["int8", "uint8"], "int16"),
        (["uint8", "float32"], "float32"),
        (["int16", "float16"], "float32"),
        (["int32", "float32"], "float64"),
        (["int64", "float32"], "float64"),
        (["int64", "uint64"], "float64"),
        (["Int64", "float64"], "float64"),
        (["Int16", "UInt8"], "int16"),
        (["Float32", "int8[pyarrow]"], "float32"),
        (["Sparse[int64]", "float64"], "float64"),
        ([">f4", ">i2"], "float32"),
    ],
)
def test_columns_meet_in_a_dtype_that_holds_them(dtypes: list[str], common: str) -> None:
    from vmfa_dask.service.sources import opened_rows

    whole = np.arange(24).reshape(12, 2)
    mixed = pandas.DataFrame({0: whole[:, 0], 1: whole[:, 1]}).astype(dict(enumerate(dtypes)))
    forms = [mixed] if dtypes[0][:2] in ("Sp", ">f") else [mixed, in_parts(mixed)]  # Dask takes no such columns
    for data in forms:
        with opened_rows(data) as rows:
            assert rows.dtype == np.dtype(common)
            np.testing.assert_array_equal(rows.read(0, 12), whole)


@pytest.mark.parametrize("call", CALLS)
def test_columns_that_are_no_numbers_are_named(call: Callable[..., Any]) -> None:
    bad = frame().assign(
        city="Oldenburg",
        when=pandas.Timestamp("2025-01-01"),
        truth=True,
        kind=pandas.Categorical(["u"] * 60),
        z=1j,
    )
    for data in (bad, in_parts(bad)):
        with pytest.raises(ValueError, match=r"'city' \(.*\), 'when' \(datetime64.*\), 'truth' \(bool\), 'kind' \(cat"):
            call(data)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [2**53 + 1, -(2**60)])
def test_columns_that_would_lose_digits_are_named(call: Callable[..., Any], value: int) -> None:
    bad = frame().assign(b=np.arange(60))
    bad.iloc[41, 1] = value
    for data in (bad, in_parts(bad)):
        with pytest.raises(ValueError, match=r"column 'b' \(int64\) holds whole numbers beyond 9007199254740992"):
            call(data)


def test_names_and_index_are_no_data() -> None:
    same = pandas.DataFrame(ROWS, columns=["a", "a", ("t", 1), 7])
    same.index = pandas.MultiIndex.from_arrays([ROWS[:, 0], np.arange(60)], names=["a", "b"])
    np.testing.assert_array_equal(MODEL.score_samples(same), MODEL.score_samples(ROWS))
    named = frame().set_index("a")
    with pytest.raises(ValueError, match="x: rows have 3 features, the model has 4"):
        MODEL.score(named)
    with pytest.raises(ValueError, match="x: rows have 3 features, the model has 4"):
        MODEL.score(in_parts(named.sort_index()))


def test_single_columns_and_empty_frames() -> None:
    with pytest.raises(ValueError, match=r"x: shape \(60,\) has no features"):
        MODEL.score(frame()["a"])
    with pytest.raises(ValueError, match=r"x: a single column 'a'; use to_frame\(\)"):
        MODEL.score(in_parts(frame())["a"])
    for data in (frame()[:0], frame()[[]], in_parts(frame())[[]]):
        with pytest.raises(ValueError, match=r"x: shape .* holds no values"):
            MODEL.score(data)


def test_bad_rows_of_frames_are_counted() -> None:
    rows = ROWS.copy()
    rows[41, 2] = np.nan
    for data in (frame(rows), in_parts(frame(rows))):
        with pytest.raises(ValueError, match=r"data: row 41, feature 2: found nan"):
            fit_local(data, **OPTIONS)
        with pytest.raises(ValueError, match=r"x: row 41, feature 2: found nan"):
            MODEL.score(data)


def test_frames_whose_sizes_nobody_knows(tmp_path: Path) -> None:
    """Sizes of partitions are counted; some may be empty."""
    frame().to_parquet(tmp_path / "x.parquet")
    chosen = in_parts(frame(), 6)
    chosen = chosen[chosen.a > np.median(ROWS[:, 0])]
    known = MODEL.score_samples(ROWS[ROWS[:, 0] > np.median(ROWS[:, 0])])
    np.testing.assert_allclose(MODEL.score_samples(chosen), known, rtol=1e-13)
    late = in_parts(frame(), 6).loc[40 * 1000 + 7 :]
    late = dask.dataframe.concat([in_parts(frame(), 3).loc[:-1], late])
    np.testing.assert_allclose(MODEL.score_samples(late), MODEL.score_samples(ROWS[40:]), rtol=1e-13)
    fit_local(late, **OPTIONS)
    stored = dask.dataframe.read_parquet(tmp_path / "x.parquet")
    np.testing.assert_allclose(MODEL.score_samples(stored), MODEL.score_samples(ROWS), rtol=1e-13)


@pytest.mark.parametrize("call", CALLS)
def test_arrays_whose_sizes_nobody_knows_name_the_way(call: Callable[..., Any]) -> None:
    chunked = dask.array.from_array(ROWS, chunks=(20, 4))
    for unknown in (chunked[chunked[:, 0] > 0], in_parts(frame()).values):
        with pytest.raises(ValueError, match=r"chunks have unknown sizes; call its compute_chunk_sizes\(\)"):
            call(unknown)
        call(unknown.compute_chunk_sizes())


def test_arrays_with_empty_chunks() -> None:
    chunked = dask.array.from_array(ROWS, chunks=(15, 4))
    numbers = dask.array.arange(60, chunks=15)
    uneven = chunked[(numbers >= 15) & (numbers != 31) & (numbers < 45)].compute_chunk_sizes()
    assert uneven.chunks[0] == (0, 15, 14, 0)
    left = np.delete(ROWS[:45], [*range(15), 31], axis=0)
    np.testing.assert_array_equal(MODEL.score_samples(uneven), MODEL.score_samples(left))
    assert parameters(fit_local(uneven, **OPTIONS).model) == parameters(fit_local(left, **OPTIONS).model)
