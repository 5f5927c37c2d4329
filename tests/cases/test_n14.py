"""N14: weights of rows are not supported, and whoever passes some is told so; they are never ignored."""

from __future__ import annotations

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture
from vmfa_dask import fit_distributed, fit_local

ROWS = draw(make_mixture(4, 6, 2), 300)


@pytest.mark.parametrize("name", ["sample_weight", "sample_weights", "weights"])
@pytest.mark.parametrize("length", [300, 299])
def test_weights_of_rows_are_refused(name: str, length: int, in_process: Client) -> None:
    weights = {name: np.ones(length)}
    with pytest.raises(TypeError, match=f"unknown argument '{name}'"):
        fit_local(ROWS, n_components=4, **weights)
    with pytest.raises(TypeError, match=f"unknown argument '{name}'"):
        fit_distributed(ROWS, n_components=4, client=in_process, **weights)
