"""D01: NaN and infinity stop a fit with their place named, and the cluster stays usable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.samples import draw, make_mixture, make_start, write_store
from vmfa_dask import fit_distributed

CLEAN = draw(make_mixture(4, 6, 3), 10_000, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "neighborhood": 3, "n_groups": 3, "max_iter": 2}


def spoiled(kind: str, dtype: str) -> np.ndarray:
    rows = CLEAN.astype(dtype)
    if kind == "chunk":
        rows[7000:8000] = np.nan
    else:
        rows[7123, 3] = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[kind]
    return rows


@pytest.mark.parametrize("started", [False, True], ids=["seeded", "given start"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["nan", "inf", "-inf", "chunk"])
def test_bad_rows_are_named(tmp_path: Path, in_process: Client, kind: str, dtype: str, started: bool) -> None:
    path = write_store(tmp_path / "x.zarr", spoiled(kind, dtype), 1000)
    start = make_start(make_mixture(4, 6, 3), 10_000, 3, 3) if started else None
    place = r"row 7000 \(chunk 7\), feature 0" if kind == "chunk" else r"row 7123 \(chunk 7\), feature 3"
    seen: list[Any] = []
    with pytest.raises(
        ValueError, match=rf"x\.zarr: {place}: found {'nan' if kind == 'chunk' else kind}, expected a finite"
    ):
        fit_distributed(path, client=in_process, start=start, precision=dtype, progress=seen.append, **OPTIONS)
    assert seen == []  # in the first pass


@pytest.mark.parametrize("cluster", ["in_process", "processes"])
def test_second_fit_on_the_same_cluster(tmp_path: Path, cluster: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(cluster)
    path = write_store(tmp_path / "bad.zarr", spoiled("nan", "float32"), 1000)
    with pytest.raises(ValueError, match=r"row 7123 \(chunk 7\), feature 3"):
        fit_distributed(path, client=client, **OPTIONS)
    fit = fit_distributed(write_store(tmp_path / "good.zarr", CLEAN, 1000), client=client, **OPTIONS)
    for name in ("weights", "means", "loadings", "noise_variances"):
        assert np.isfinite(getattr(fit.model, name)).all()
