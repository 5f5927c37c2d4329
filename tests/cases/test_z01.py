"""Z01: a chunk that is not stored is no block of zeros."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from zarr.storage import FsspecStore, ZipStore

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed, fit_local
from vmfa_dask.store.completeness import Completeness, completeness_of

ROWS = draw(make_mixture(4, 6, 3), 1000, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 2, "n_groups": 2}


@pytest.mark.parametrize(
    ("layout", "lost", "found"),
    [
        ({"zarr_format": 2}, "3.0", r"1 chunks are not stored, the first one is \(3, 0\) \(rows 300:400\)"),
        ({"zarr_format": 3}, "c/9/0", r"the first one is \(9, 0\) \(rows 900:1000\)"),
        ({"shards": (300, 6)}, "c/1/0", r"the first one is \(1, 0\) \(rows 300:600\)"),
    ],
)
def test_a_deleted_chunk_is_named(
    tmp_path: Path, in_process: Client, layout: dict[str, Any], lost: str, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 100, **layout)
    assert np.isfinite(fit_distributed(path, client=in_process, **OPTIONS).model.score(ROWS))
    (tmp_path / "x.zarr" / lost).unlink()
    for fit in (fit_local, functools.partial(fit_distributed, client=in_process)):
        with pytest.raises(ValueError, match=rf"x.zarr: .*{found}; Zarr reads them as .*0.0.*missing_chunks='fill'"):
            fit(path, **OPTIONS)
    with caplog.at_level(logging.WARNING, "vmfa_dask"):
        filled = fit_local(path, missing_chunks="fill", **OPTIONS)
    assert "1 chunks are not stored" in caplog.text
    holes = np.asarray(zarr.open_array(path, mode="r")[:])
    again = write_store(tmp_path / "y.zarr", holes, 100, **layout)
    assert parameters(filled.model) == parameters(fit_local(again, **OPTIONS).model)


def test_a_chunk_of_zeros_that_zarr_left_out(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (600, 6)).astype(np.uint8)
    rows[200:300] = 0
    path = write_store(tmp_path / "x.zarr", rows, 100, config={"write_empty_chunks": False})
    with pytest.raises(ValueError, match=r"the first one is \(2, 0\)"):
        fit_local(path, **OPTIONS)
    assert np.isfinite(fit_local(path, missing_chunks="fill", **OPTIONS).model.score(rows))


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"missing_chunks='zero': expected one of \('refuse', 'fill'\)"):
        fit_local(ROWS, missing_chunks="zero", **OPTIONS)


def test_only_stores_that_can_be_listed_are_searched(tmp_path: Path) -> None:
    """A web server lists what it likes, so nothing follows from what it does not list."""
    array = zarr.open_array(write_store(tmp_path / "x.zarr", ROWS, 100), mode="r")
    assert completeness_of(array) == Completeness()
    (tmp_path / "x.zarr" / "c" / "3" / "0").unlink()
    assert completeness_of(array) == Completeness(1, (3, 0))
    remote = zarr.open_array(FsspecStore.from_url(f"file://{tmp_path}/x.zarr"), mode="r")
    assert completeness_of(remote) == Completeness()
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        zarr.create_array(store, data=ROWS, chunks=(100, 6))
    with ZipStore(tmp_path / "x.zip", mode="r") as store:
        assert completeness_of(zarr.open_array(store, mode="r")) == Completeness()
