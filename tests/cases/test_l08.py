"""L08: what does not fit a worker is refused with its largest part as the cause, and with numbers that would fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.clusters import local_cluster
from vmfa_dask import Settings, fit_distributed
from vmfa_dask.run.advice import Advice
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.projection import projected_bytes
from vmfa_dask.run.row_source import ArrayRows

MIB = 2**20


class Rows(ArrayRows):
    """Rows of any number and width that nobody reads, stored as a chunked store would have them."""

    def __init__(self, n_rows: int, n_features: int, decoded_rows: int = 1, dtype: str = "float32") -> None:
        super().__init__(np.zeros((1, 1), dtype))
        self.n_rows, self.feature_shape = n_rows, (n_features,)
        self.chunk_rows = self.decoded_rows = decoded_rows
        self.reads_parts = decoded_rows == 1


def advice_on(rows: Any, settings: Settings, limit: int, n_groups: int | None = None) -> tuple[str, int]:
    """Advice for what does not fit, and what would be needed."""
    plan = make_plan(rows, settings, n_groups)
    needed = sum(projected_bytes(rows, settings, plan).values())
    assert needed > limit
    return Advice(rows, settings, plan, n_groups)(limit), needed


def needed_by(rows: Any, settings: Settings, n_groups: int | None = None) -> int:
    return sum(projected_bytes(rows, settings, make_plan(rows, settings, n_groups)).values())


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("n_features", [12, 3072])
def test_a_large_chunk_is_named_with_a_size_that_fits(dtype: str, n_features: int) -> None:
    row_bytes, settings = n_features * np.dtype(dtype).itemsize, Settings(8, 2)
    chunk = 192 * MIB // row_bytes
    rows = Rows(4 * chunk, n_features, chunk, dtype)
    text, _ = advice_on(rows, settings, 480 * MIB)
    found = re.fullmatch(
        rf"the largest part is rows: a chunk of the store holds {chunk} rows and takes 192 MiB decoded, of which three "
        r"are held; the data rewritten in chunks of at most (\d+) rows \([\d.]+ MiB\) would fit",
        text,
    )
    assert found is not None, text
    n = int(found[1])
    assert needed_by(Rows(4 * chunk, n_features, n, dtype), settings) <= 480 * MIB
    assert needed_by(Rows(4 * chunk, n_features, n + max(2, n // 20), dtype), settings) > 480 * MIB


def test_wide_rows_are_cut_into_more_groups() -> None:
    rows, settings = Rows(2000, 400_000), Settings(4, 0, covariance_type="diagonal")
    text, _ = advice_on(rows, settings, 560 * MIB, n_groups=2)
    assert "the largest part is rows: blocks of" in text
    n_groups = int(re.search(r"n_groups=(\d+) would fit", text)[1])  # type: ignore[index]
    assert needed_by(rows, settings, n_groups) <= 560 * MIB


def test_candidates_are_named_with_a_neighborhood_that_fits() -> None:
    common: dict[str, Any] = {"n_components": 20_000, "n_factors": 0, "covariance_type": "diagonal"}
    rows, settings = Rows(2000, 4), Settings(**common, neighborhood=5_000)
    text, _ = advice_on(rows, settings, 500 * MIB)
    assert "the largest part is candidates: a row is compared with up to 15001 components at once" in text
    size = int(re.search(r"neighborhood=(\d+)", text)[1])  # type: ignore[index]
    assert 50 < size < 5_000
    assert needed_by(rows, Settings(**common, neighborhood=size)) <= 500 * MIB


@pytest.mark.parametrize("truncation", [3, "all"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_large_models_are_named_with_numbers_that_fit(precision: str, truncation: Any) -> None:
    exact = {"search": "exhaustive", "truncation": 500} if truncation == "all" else {"neighborhood": (9, 5, 5)}
    rows, settings = Rows(50_000, 3072), Settings(500, 5, precision=precision, **exact)
    limit = needed_by(rows, settings) // 2
    text, _ = advice_on(rows, settings, limit)
    assert "parameters and sums of n_components=500 with 5 factors and 3072 features in " + precision in text
    c = int(re.search(r"n_components=(\d+)", text.split(";")[1])[1])  # type: ignore[index]
    fewer = {"search": "exhaustive", "truncation": c} if truncation == "all" else exact
    assert needed_by(rows, Settings(c, 5, precision=precision, **fewer)) <= limit
    h = re.search(r"n_factors=(\d+)", text)
    if h is not None:
        assert needed_by(rows, Settings(500, int(h[1]), precision=precision, **exact)) <= limit


def test_where_nothing_fits_nothing_is_promised() -> None:
    text, _ = advice_on(Rows(1000, 50), Settings(5, 2), 100 * MIB)
    assert "would fit" not in text


def test_the_fit_says_so_before_any_task(tmp_path: Path) -> None:
    stored = zarr.create_array(
        str(tmp_path / "x.zarr"), shape=(500_000, 96), dtype="float32", chunks=(500_000, 96), fill_value=0
    )
    stored[0] = 1.0  # one chunk of 192 MB, which compresses to nothing
    with (
        local_cluster(1, processes=False, memory_limit=600_000_000) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(MemoryError, match=r"largest part is rows: a chunk of the store holds 500000 rows") as refused,
    ):
        fit_distributed(str(tmp_path / "x.zarr"), n_components=4, n_factors=2, client=client)
    text = str(refused.value)
    assert re.search(r"the data rewritten in chunks of at most \d+ rows \(\d+\.\d MiB\) would fit", text)
    needed, least = re.search(r"would need (\d+) MiB", text), re.search(r"give each worker at least (\d+) MiB", text)
    assert needed is not None
    assert least is not None
    assert int(least[1]) == pytest.approx(int(needed[1]) / 0.8, abs=2)
    assert "n_components" not in text
