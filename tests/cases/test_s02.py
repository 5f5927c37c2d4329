"""S02: rows in half precision are read as stored and trained as their float32 copy is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.run.plan import make_plan
from vmfa_dask.run.projection import projected_bytes
from vmfa_dask.run.settings import Settings
from vmfa_dask.store.rows import ZarrRows

ROWS = draw(make_mixture(3, 6, 1), 200, dtype="float64").astype(np.float16)
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2, "n_groups": 2}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "compressed": {},
    "format 2": {"zarr_format": 2},
    "shards": {"shards": (100, 6)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stores(tmp_path: Path, layout: str) -> None:
    half, single = (
        write_store(tmp_path / dtype, ROWS.astype(dtype), 50, **LAYOUTS[layout]) for dtype in ("float16", "float32")
    )
    fits = [fit_local(store, **OPTIONS) for store in (half, single)]
    assert parameters(fits[0].model) == parameters(fits[1].model)
    model = fits[1].model
    for function in (model.score_samples, model.predict):
        np.testing.assert_array_equal(function(half), function(single))
    assert model.bounds(half) == model.bounds(single)
    assert model.free_energy(half) == model.free_energy(single)


def test_other_forms_and_workers(processes: Client) -> None:
    single = ROWS.astype(np.float32)
    expected = parameters(fit_local(single, **OPTIONS).model)
    assert parameters(fit_local(ROWS, **OPTIONS).model) == expected
    assert parameters(fit_distributed(ROWS, client=processes, **OPTIONS).model) == expected
    chunked = dask.array.from_array(ROWS.astype(">f2"), chunks=(70, 4))
    assert parameters(fit_distributed(chunked, client=processes, **OPTIONS).model) == expected


def test_half_the_bytes_are_read_and_memory_is_that_of_float32(tmp_path: Path) -> None:
    half, single = (
        ZarrRows(write_store(tmp_path / dtype, ROWS.astype(dtype), 50, compressors=None))
        for dtype in ("float16", "float32")
    )
    for rows in (half, single):
        rows.read(0, 200)
    assert half.bytes_read == single.bytes_read // 2 == ROWS.nbytes
    assert make_plan(half, Settings(3)) == make_plan(single, Settings(3))
    projected = [projected_bytes(rows, Settings(3), make_plan(rows, Settings(3))) for rows in (half, single)]
    assert projected[0] == projected[1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    """A float32 beyond the range of half precision was stored as infinity."""
    spoiled = ROWS.copy()
    spoiled[123, 4] = value
    for data in (spoiled, write_store(tmp_path / "x.zarr", spoiled, 50)):
        with pytest.raises(ValueError, match=rf"row 123.*, feature 4: found {value}, expected a finite number"):
            fit_local(data, **OPTIONS)
