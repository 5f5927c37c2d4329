"""D04: image stacks are flattened in one order, and shapes that cannot be rows are refused with advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.samples import images, write_store
from vmfa_dask import fit_distributed, fit_local

SHAPE = (8, 8, 3)
OPTIONS: dict[str, Any] = {"n_components": 6, "n_factors": 3, "max_iter": 5}


def test_stacks_and_flat_rows_give_the_same_fit(tmp_path: Path, in_process: Client) -> None:
    rows = images(400, SHAPE)
    stores = [
        write_store(tmp_path / "whole.zarr", rows, (50, *SHAPE)),
        write_store(tmp_path / "cut.zarr", rows, (50, 4, 8, 3)),
        write_store(tmp_path / "flat.zarr", rows.reshape(400, -1), (50, 192)),
    ]
    whole, cut, flat = (fit_distributed(path, client=in_process, **OPTIONS).model for path in stores)
    for other in (cut, flat):
        for name in ("weights", "means", "loadings", "noise_variances"):
            np.testing.assert_allclose(getattr(other, name), getattr(whole, name), rtol=1e-6, atol=1e-6)
    assert whole.feature_shape == cut.feature_shape == SHAPE
    assert flat.feature_shape == (192,)
    assert whole.component_means.shape == (6, *SHAPE)
    np.testing.assert_array_equal(whole.component_means.reshape(6, -1), flat.component_means)
    np.testing.assert_array_equal(whole.predict(rows), flat.predict(rows.reshape(400, -1)))


def test_a_vector_is_refused_with_advice(tmp_path: Path, in_process: Client) -> None:
    path = write_store(tmp_path / "vector.zarr", np.arange(100.0), (10,))
    with pytest.raises(ValueError, match=r"vector\.zarr: shape \(100,\) has no features.*reshape\(-1, 1\)"):
        fit_distributed(path, client=in_process, **OPTIONS)
    with pytest.raises(ValueError, match=r"reshape\(-1, 1\)"):
        fit_local(np.arange(100.0), **OPTIONS)


def test_rows_of_another_width_are_refused_with_both_numbers() -> None:
    model = fit_local(images(100, SHAPE), **OPTIONS).model
    for x in (np.zeros((3, 191)), np.zeros((3, 8, 8, 4))):
        with pytest.raises(ValueError, match=f"rows have {x[0].size} features, the model has 192"):
            model.predict(x)
    with pytest.raises(ValueError, match=r"expected \(n, 192\) or \(n, 8, 8, 3\)"):
        model.predict(np.zeros(192))
