"""`prepare`: what the library writes, an interrupt, and workers of a scheduler. Recipes: tests/data_prep/recipes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.command.test_program import error_of
from tests.commands import prepare_arrays, prepare_images
from tests.data_prep.image_files import encoded, noise, write_folder
from vmfa_dask.command import main


def test_images_and_arrays_become_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "photos", {f"{k}.png": encoded(noise(k, 12, 10)) for k in range(4)})
    target = str(tmp_path / "photos.zarr")
    assert prepare_images([str(tmp_path / "photos"), target, "--size", "8", "8", "--channels", "1"]) == 0
    assert capsys.readouterr().out == "4 images written, 0 skipped\n"
    assert zarr.open_array(target, mode="r").shape == (4, 8, 8, 1)
    np.save(tmp_path / "rows.npy", np.arange(6.0).reshape(3, 2))
    target = str(tmp_path / "rows.zarr")
    assert prepare_arrays([str(tmp_path / "rows.npy"), target, "--dtype", "float32"]) == 0
    assert capsys.readouterr().out == f"{target}: 3 rows\n"
    np.testing.assert_array_equal(zarr.open_array(target, mode="r")[:], np.arange(6).reshape(3, 2))
    assert "exists" in error_of(["prepare", "arrays", str(tmp_path / "rows.npy"), target], capsys, 1)


def test_an_interrupt_says_that_the_call_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    np.save(tmp_path / "rows.npy", np.arange(6.0).reshape(3, 2))
    monkeypatch.setattr("vmfa_dask.data_prep.arrays_to_zarr.arrays_to_zarr", interrupted)
    assert prepare_arrays([str(tmp_path / "rows.npy"), str(tmp_path / "rows.zarr")]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "the preparation was interrupted; the same call resumes it"


@pytest.mark.parametrize("recipe", ["cifar10", "celeba", "emnist", "svhn", "yfcc100m"])
def test_recipes_refuse_folders_without_their_files(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["prepare", recipe, str(tmp_path / "empty"), str(tmp_path / "x.zarr")]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")
