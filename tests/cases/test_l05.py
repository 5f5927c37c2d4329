"""L05: arrays of groups are found at any depth, and what is there is listed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client
from zarr.storage import ZipStore

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_distributed, fit_local

ROWS = draw(make_mixture(3, 4, 1), 60)
MODEL = MixtureModel.of(make_mixture(3, 4, 1))
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 1, "max_iter": 2, "n_groups": 2}
LISTED = r"arrays 'images/test', 'images/train', 'labels'; choose one by the argument array=\.\.\., found array={!r}"


def fill(group: zarr.Group) -> None:
    group.create_array("images/train", data=ROWS, chunks=(20, 4))
    group.create_array("images/test", data=ROWS[:15] + 1, chunks=(15, 4))
    group.create_array("labels", data=np.arange(60))
    group.create_group("empty/inside")


@pytest.fixture(params=["format 2", "format 3", "consolidated", "zip"])
def nested(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "g.zarr"
    if request.param == "zip":
        with ZipStore(path, mode="w") as store:
            fill(zarr.open_group(store, mode="w"))
        return str(path)
    fill(zarr.open_group(path, mode="w", zarr_format=2 if request.param == "format 2" else 3))
    if request.param == "consolidated":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # format 3 has no standard for it yet
            zarr.consolidate_metadata(str(path))
    return str(path)


@pytest.mark.parametrize("name", ["images/train", "/images/train", "images/train/"])
def test_a_path_inside_the_group(nested: str, name: str) -> None:
    fit = fit_local(nested, array=name, **OPTIONS)
    assert fit.model.n_features == 4
    np.testing.assert_array_equal(MODEL.score_samples(nested, array=name), MODEL.score_samples(ROWS))


@pytest.mark.parametrize("name", [None, "images", "empty", "nothing", "images/train/x", "../g.zarr/labels", "train"])
def test_everything_inside_is_listed_where_the_choice_is_not_clear(nested: str, name: str | None) -> None:
    message = rf"g\.zarr is a group with the {LISTED.format(name)}; their shapes are \(15, 4\), \(60, 4\), \(60,\)"
    for read in (MODEL.score, MODEL.predict, lambda data, array: fit_local(data, array=array, **OPTIONS)):
        with pytest.raises(ValueError, match=message):
            read(nested, array=name)


def test_a_group_inside_that_holds_one_array_is_clear(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a/deep/x", data=ROWS)
    np.testing.assert_array_equal(MODEL.score_samples(tmp_path / "g.zarr"), MODEL.score_samples(ROWS))
    group.create_array("b/x", data=ROWS + 1)
    (tmp_path / "g.zarr" / "notes.txt").write_text("files beside the arrays do no harm")
    (tmp_path / "g.zarr" / "logs").mkdir()
    for data, name in ((tmp_path / "g.zarr", "a"), (group, "a/deep"), (group["a"], None), (group["a"], "deep/x")):
        np.testing.assert_array_equal(MODEL.score_samples(data, array=name), MODEL.score_samples(ROWS))
    with pytest.raises(ValueError, match="arrays 'a/deep/x', 'b/x'; choose"):
        MODEL.score(group)


def test_groups_without_arrays(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "g.zarr", mode="w").create_group("a/b")
    with pytest.raises(ValueError, match="is a group with the arrays none; choose one"):
        MODEL.score(tmp_path / "g.zarr")


def test_worker_processes_and_bad_rows(nested: str, processes: Client) -> None:
    fit = fit_distributed(nested, array="images/train", client=processes, **OPTIONS)
    assert parameters(fit.model) == parameters(fit_local(nested, array="images/train", **OPTIONS).model)


def test_the_array_is_called_by_its_path(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "g.zarr", mode="w").create_array("a/x", data=np.full((3, 4), np.nan))
    for name in (None, "a", "a/x"):
        with pytest.raises(ValueError, match=r"g\.zarr/a/x: row 0 \(chunk 0\), feature 0: found nan"):
            MODEL.score(tmp_path / "g.zarr", array=name)


def test_trees_of_xarray() -> None:
    rows = (("sample", "feature"), ROWS)
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"a": rows}), "/images": xr.Dataset({"train": rows})})
    for name in ("a", "images/train", "/images/train"):
        np.testing.assert_array_equal(MODEL.score_samples(tree, array=name), MODEL.score_samples(ROWS))
    assert MODEL.score_samples(tree["images"]).shape == (60,)
    with pytest.raises(ValueError, match=r"a DataTree with the variables 'a', 'images/train'; choose .*'train'"):
        MODEL.score(tree, array="train")
