"""Z04: groups, both formats, metadata consolidated or not, and paths where nothing is."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import fit_distributed

ROWS = draw(make_mixture(4, 6, 3), 300, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 4, "n_factors": 3, "max_iter": 2, "n_groups": 2}


def make_group(path: Path, zarr_format: int, consolidated: bool) -> str:
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, data in (("x", ROWS), ("y", ROWS[:, :5])):
        group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=(100, data.shape[1]))[...] = data
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # format 3 has no standard for it yet
            zarr.consolidate_metadata(str(path))
    return str(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_array_at_the_root(tmp_path: Path, in_process: Client, zarr_format: int) -> None:
    path = write_store(tmp_path / "x.zarr", ROWS, 100, zarr_format=zarr_format)
    fit = fit_distributed(path, client=in_process, **OPTIONS)
    assert np.isfinite(fit.model.score(ROWS))


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_group(tmp_path: Path, in_process: Client, zarr_format: int, consolidated: bool) -> None:
    path = make_group(tmp_path / "g.zarr", zarr_format, consolidated)
    with pytest.raises(
        ValueError, match=r"g\.zarr is a group with the arrays 'x', 'y'; choose one by the argument array="
    ):
        fit_distributed(path, client=in_process, **OPTIONS)
    chosen, member = (
        fit_distributed(*where, client=in_process, **options)
        for where, options in (((path,), {**OPTIONS, "array": "x"}), ((f"{path}/x",), OPTIONS))
    )
    assert parameters(chosen.model) == parameters(member.model)
    assert chosen.model.n_features == 6
    with pytest.raises(ValueError, match=r"'x', 'y'.*found array='z'"):
        fit_distributed(path, array="z", client=in_process, **OPTIONS)


@pytest.mark.parametrize("place", ["missing.zarr", "folder", "g.zarr/z", "folder/deeper/missing.zarr"])
def test_paths_where_nothing_is(tmp_path: Path, in_process: Client, place: str) -> None:
    (tmp_path / "folder").mkdir()
    make_group(tmp_path / "g.zarr", 3, False)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileNotFoundError, match=f"{place}: no Zarr array or group is stored there"):
        fit_distributed(tmp_path / place, client=in_process, **OPTIONS)
    assert sorted(tmp_path.rglob("*")) == before


def test_worker_processes_open_members_of_groups(tmp_path: Path, processes: Client, in_process: Client) -> None:
    path = make_group(tmp_path / "g.zarr", 2, True)
    a, b = (fit_distributed(path, array="x", client=client, **OPTIONS) for client in (processes, in_process))
    assert parameters(a.model) == parameters(b.model)
