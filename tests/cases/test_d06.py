"""D06: Dask arrays with chunks of any kind, and blocks that nobody may write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(4, 64, 3), 600, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 2, "n_groups": 2}


@pytest.fixture(scope="module")
def expected() -> bytes:
    return parameters(fit_local(ROWS, **OPTIONS).model)


def test_unknown_chunk_sizes_are_named(in_process: Client) -> None:
    array = da.from_array(ROWS, chunks=(100, 64))
    picked = array[array[:, 0] > np.median(ROWS[:, 0])]
    with pytest.raises(ValueError, match=r"data: a dask array whose chunks have unknown sizes; .*compute_chunk_sizes"):
        fit_distributed(picked, client=in_process, **OPTIONS)
    assert np.isfinite(fit_distributed(picked.compute_chunk_sizes(), client=in_process, **OPTIONS).model.score(ROWS))


@pytest.mark.parametrize("chunks", [(100, 64), (100, 16), ((1, 299, 300), (64,)), (600, 1)])
def test_chunks_of_any_shape(processes: Client, expected: bytes, chunks: Any, tmp_path: Path) -> None:
    array = da.from_array(ROWS, chunks=chunks)
    fit = fit_distributed(array, client=processes, scratch=str(tmp_path), **OPTIONS)
    assert parameters(fit.model) == expected
    assert list(tmp_path.iterdir()) == []


def test_images_and_the_serial_executor(expected: bytes) -> None:
    images = da.from_array(ROWS.reshape(600, 8, 8), chunks=(70, 4, 8))
    fit = fit_local(images, **OPTIONS)
    assert parameters(fit.model) == expected
    assert fit.model.feature_shape == (8, 8)


def test_scattered_blocks_stay_as_they_are(processes: Client, expected: bytes) -> None:
    futures = processes.scatter([ROWS[start : start + 200] for start in (0, 200, 400)])
    blocks = [da.from_delayed(future, (200, 64), "float32") for future in futures]
    fit = fit_distributed(da.concatenate(blocks), client=processes, **OPTIONS)
    assert parameters(fit.model) == expected
    np.testing.assert_array_equal(np.concatenate(processes.gather(futures)), ROWS)


def test_what_is_no_table_is_refused_before_it_is_stored(in_process: Client) -> None:
    with pytest.raises(ValueError, match=r"data: dtype complex128 is not supported"):
        fit_distributed(da.ones((50, 4), dtype=complex), client=in_process, **OPTIONS)
    with pytest.raises(ValueError, match=r"data: shape \(50,\) has no features"):
        fit_distributed(da.ones(50), client=in_process, **OPTIONS)


def test_chunks_that_a_worker_wrote_elsewhere_are_missed(
    in_process: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vmfa_dask.service.sources.write_rows", lambda array, target, client: None)
    with pytest.raises(FileNotFoundError, match=r"not all workers .* see the folder .*vmfa-rows.*; pass scratch="):
        fit_distributed(da.zeros((600, 64)), client=in_process, scratch=str(tmp_path), **OPTIONS)
    assert list(tmp_path.iterdir()) == []
