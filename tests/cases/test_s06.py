"""S06: what is behind a mask is never used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
from distributed import Client

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_distributed, fit_local

ROWS = draw(make_mixture(3, 4, 1), 60, dtype="float32")
MODEL = MixtureModel.of(make_mixture(3, 4, 1))
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2}
METHODS = ["score_samples", "score", "predict", "bounds", "free_energy"]


def hidden(dtype: str = "float32") -> np.ma.MaskedArray:
    """Three values of rows 17 and 40 are masked, and would be −99."""
    masked = np.ma.masked_array(ROWS.astype(dtype), mask=np.zeros((60, 4), bool))
    for place in ((17, 2), (40, 0), (40, 1)):
        masked.data[place], masked.mask[place] = -99, True
    return masked


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", ">f4", "float16"])
def test_arrays(dtype: str) -> None:
    message = r"3 of 240 values are masked, the first one at \(17, 2\); leave their rows out, or fill them"
    with pytest.raises(ValueError, match=f"data: {message}"):
        fit_local(hidden(dtype), **OPTIONS)
    for method in METHODS:
        with pytest.raises(ValueError, match=f"x: {message}"):
            getattr(MODEL, method)(hidden(dtype))


def test_a_mask_that_hides_nothing() -> None:
    expected = parameters(fit_local(ROWS, **OPTIONS).model)
    for mask in (np.ma.nomask, np.zeros((60, 4), bool)):
        masked = np.ma.masked_array(ROWS, mask=mask)
        assert parameters(fit_local(masked, **OPTIONS).model) == expected
        chunked = dask.array.from_array(masked, chunks=(20, 2))
        np.testing.assert_array_equal(MODEL.score_samples(chunked), MODEL.score_samples(ROWS))
    left = hidden()[~np.ma.getmaskarray(hidden()).any(axis=1)]
    assert MODEL.score_samples(left).shape == (58,)
    MODEL.score(hidden().filled(0))


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_chunks_of_dask(in_process: Client, processes: Client, announced: bool, named: bool) -> None:
    chunked: Any = dask.array.from_array(hidden(), chunks=(30, 2))
    if not announced:  # as functions give them that return masked chunks
        plain = dask.array.from_array(ROWS, chunks=(30, 2))
        chunked = plain.map_blocks(lambda block: np.ma.masked_greater(block, ROWS.max() - 0.01), dtype="f4")
    data = xr.DataArray(chunked, dims=("sample", "feature"), name="heights") if named else chunked
    # xarray makes NaN of masked values.
    message = r"row \d+, feature \d: found nan" if named else r"rows \d+:\d+: \d of 60 values are masked"
    for client in (in_process, processes):
        with pytest.raises(ValueError, match=message):
            fit_distributed(data, client=client, **OPTIONS)
    with pytest.raises(ValueError, match=f"data.*{message}"):
        fit_local(data, **OPTIONS)
    for method in METHODS:
        with pytest.raises(ValueError, match=f"x: variable 'heights': {message}" if named else f"x, {message}"):
            np.asarray(getattr(MODEL, method)(data))  # results of labelled rows are lazy where the rows are


def test_lists_of_masked_values() -> None:
    for items in (list(hidden()), tuple(hidden()), [hidden()[17], hidden()[40]], [[1.0, 2, 3, np.ma.masked]]):
        with pytest.raises(ValueError, match=r"x: [13] values in these lists are masked"):
            MODEL.score(items)
    MODEL.score(list(np.ma.masked_array(ROWS)))


def test_xarray_has_made_nan_of_what_was_masked() -> None:
    data = xr.DataArray(hidden(), dims=("sample", "feature"), name="heights")
    with pytest.raises(ValueError, match="data: variable 'heights': row 17, feature 2: found nan"):
        fit_local(data, **OPTIONS)
    with pytest.raises(ValueError, match="x: variable 'heights': row 17, feature 2: found nan"):
        MODEL.score(data)


def test_classes_with_a_mask_of_their_own() -> None:
    class Masked(np.ndarray):
        """As other packages derive them from NumPy's arrays."""

        @property
        def mask(self) -> np.ndarray:
            return np.ma.getmaskarray(hidden())

    with pytest.raises(ValueError, match="x: 3 of 240 values are masked"):
        MODEL.score(ROWS.view(Masked))


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "int32[pyarrow]", "double[pyarrow]"])
def test_missing_values_of_pandas(dtype: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    import dask.dataframe

    frame = pandas.DataFrame({name: np.arange(12.0) for name in "abcd"}).astype({"c": dtype})
    MODEL.score(frame)
    frame.loc[[3, 7], "c"] = pandas.NA
    for data in (frame, dask.dataframe.from_pandas(frame, npartitions=1)):
        with pytest.raises(ValueError, match=r"column 'c' \(.*\) has 2 missing values; fill them"):
            MODEL.score(data)
        with pytest.raises(ValueError, match=r"column 'c' \(.*\) has 2 missing values; fill them"):
            fit_local(data, **OPTIONS)
