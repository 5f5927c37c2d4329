"""Models on disk: whole or not at all, read by xarray, refused by name when they are something else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

from tests.samples import make_mixture, parameters
from vmfa_dask.store import models
from vmfa_dask.store.models import CHUNKED_VERSION, FORMAT_VERSION, load_mixture, save_mixture
from vmfa_dask.values import Mixture

NAMES = ("weights", "means", "loadings", "noise_variances", "offset")


def image_mixture(dtype: str = "float32", n_factors: int = 2) -> Mixture:
    m = make_mixture(4, 12, n_factors, dtype=dtype)
    return Mixture(m.weights, m.means, m.loadings, m.noise_variances, (2, 2, 3), np.linspace(0, 5, 12), version=17)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [0, 2])
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, dtype: str, n_factors: int) -> None:
    saved = image_mixture(dtype, n_factors)
    save_mixture(saved, str(tmp_path / "model.zarr"))
    loaded, _ = load_mixture(str(tmp_path / "model.zarr"))
    assert parameters(loaded) == parameters(saved)
    assert loaded.means.dtype == np.dtype(dtype)
    assert loaded.loadings.shape == (4, n_factors, 12)
    assert (loaded.feature_shape, loaded.version) == ((2, 2, 3), 17)
    assert [path.name for path in tmp_path.iterdir()] == ["model.zarr"]


def test_xarray_opens_it(tmp_path: Path) -> None:
    saved = image_mixture()
    save_mixture(saved, str(tmp_path / "m"), provenance={"data": "images.zarr", "n_rows": 7})
    with xarray.open_zarr(tmp_path / "m", consolidated=False) as opened:
        assert dict(opened.sizes) == {"component": 4, "factor": 2, "feature": 12}
        assert opened["loadings"].dims == ("component", "factor", "feature")
        for name in NAMES:
            known = saved.means.astype(np.float64) + saved.offset if name == "means" else getattr(saved, name)
            np.testing.assert_array_equal(opened[name], known)
        assert opened.attrs["format_version"] == FORMAT_VERSION
        assert opened.attrs["provenance"] == {"data": "images.zarr", "n_rows": 7}


def test_only_arrays_and_json_are_written(tmp_path: Path) -> None:
    save_mixture(image_mixture(), str(tmp_path / "m"))
    for path in (tmp_path / "m").rglob("zarr.json"):
        json.loads(path.read_text())
    others = {path.name for path in (tmp_path / "m").rglob("*") if path.is_file()} - {"zarr.json"}
    assert all(set(name) <= set("0123456789c") for name in others)


def test_an_existing_target_is_refused_unless_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    save_mixture(image_mixture(), path)
    other = make_mixture(2, 3, 1)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save_mixture(other, path)
    assert load_mixture(path)[0].n_components == 4
    save_mixture(other, path, overwrite=True)
    assert parameters(load_mixture(path)[0]) == parameters(other)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failed_save_leaves_the_target_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "m")
    save_mixture(image_mixture(), path)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(zarr.Group, "create_array", full)
    with pytest.raises(OSError, match="No space left"):
        save_mixture(make_mixture(2, 3, 1), path, overwrite=True)
    monkeypatch.undo()
    assert parameters(load_mixture(path)[0]) == parameters(image_mixture())


def test_large_arrays_are_cut_into_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loadings of a component take 96 bytes: chunks of three components, the last one with one."""
    monkeypatch.setattr(models, "_CHUNK_BYTES", 300)
    saved, path = image_mixture(), tmp_path / "m"
    save_mixture(saved, str(path))
    assert sorted(p.name for p in (path / "loadings" / "c").iterdir()) == ["0", "1"]
    assert zarr.open_group(path, mode="r").attrs["format_version"] == CHUNKED_VERSION
    monkeypatch.undo()
    assert parameters(load_mixture(str(path))[0]) == parameters(saved)
    with xarray.open_zarr(path, consolidated=False) as opened:
        np.testing.assert_array_equal(opened["loadings"], saved.loadings)
    chunk = path / "loadings" / "c" / "1" / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(ValueError, match="the array 'loadings' is damaged: its checksum does not match"):
        load_mixture(str(path))
    chunk.unlink()
    with pytest.raises(ValueError, match="'loadings' lacks numbers; the file is incomplete"):
        load_mixture(str(path))


def edit(path: Path, **attributes: object) -> None:
    zarr.open_group(path, mode="r+").attrs.update(attributes)


def test_newer_formats_are_refused_by_number(tmp_path: Path) -> None:
    save_mixture(image_mixture(), str(tmp_path / "m"))
    edit(tmp_path / "m", format_version=FORMAT_VERSION + 6)
    with pytest.raises(ValueError, match=rf"format {FORMAT_VERSION + 6}.* reads up to {CHUNKED_VERSION}"):
        load_mixture(str(tmp_path / "m"))


def test_other_groups_are_refused(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "other", mode="w")
    with pytest.raises(ValueError, match=r"format is None, expected 'vmfa_dask\.mixture'"):
        load_mixture(str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError, match="no model is stored there"):
        load_mixture(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", NAMES)
def test_incomplete_models_are_refused(tmp_path: Path, name: str) -> None:
    save_mixture(image_mixture(), str(tmp_path / "m"))
    del zarr.open_group(tmp_path / "m", mode="r+")[name]
    with pytest.raises(ValueError, match=f"the array '{name}' is missing; the file is incomplete"):
        load_mixture(str(tmp_path / "m"))


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_lost_their_numbers_are_refused(tmp_path: Path, name: str) -> None:
    save_mixture(image_mixture(), str(tmp_path / "m"))
    for chunk in (tmp_path / "m" / name / "c").rglob("*"):
        if chunk.is_file():
            chunk.unlink()
    with pytest.raises(ValueError, match=f"'{name}' lacks numbers; the file is incomplete"):
        load_mixture(str(tmp_path / "m"))


@pytest.mark.parametrize("name", NAMES)
def test_models_whose_bytes_were_changed_are_refused(tmp_path: Path, name: str) -> None:
    save_mixture(image_mixture(), str(tmp_path / "m"))
    chunk = next(path for path in (tmp_path / "m" / name / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[3] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=f"the array '{name}' is damaged"):
        load_mixture(str(tmp_path / "m"))
