"""S11: models lie where data and runs may lie: URLs of object stores, file://, ~; other schemes are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

from tests.objects import environment_of, failing_proxy
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel
from vmfa_dask.store import models
from vmfa_dask.store.object_place import ObjectPlace
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import locate, place_at

OLD, NEW = (MixtureModel.of(make_mixture(c, 5, 1, dtype="float32")) for c in (2, 4))


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory in which nothing may be left."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    assert list(folder.iterdir()) == []


def names(url: str) -> list[str]:
    place = place_at(url)
    assert isinstance(place, ObjectPlace)
    return place.names()


@pytest.mark.parametrize("at", ["m", "deep/er/m.zarr", "m/", ""])
def test_models_in_an_object_store(bucket: str, at: str) -> None:
    url = f"{bucket}/{at}" if at else bucket
    with pytest.raises(FileNotFoundError, match="no model is stored there"):
        MixtureModel.load(url)
    OLD.save(url, provenance={"n": 1})
    assert parameters(MixtureModel.load(url)) == parameters(OLD)
    with xarray.open_zarr(zarr_target(locate(url)), consolidated=False) as opened:
        np.testing.assert_array_equal(opened["means"], OLD.means)
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        NEW.save(url)
    assert MixtureModel.load(url) == OLD
    NEW.save(url, overwrite=True)
    assert MixtureModel.load(url) == NEW
    assert all(models._FILES.fullmatch(name) for name in names(url))
    group = zarr.open_group(zarr_target(locate(url)), mode="r").attrs["group"]
    with xarray.open_zarr(zarr_target(locate(url)), group=group, consolidated=False) as opened:
        np.testing.assert_array_equal(opened["means"], NEW.means)
    rows = draw(NEW, 20, dtype="float32")
    np.testing.assert_array_equal(MixtureModel.load(url).score_samples(rows), NEW.score_samples(rows))


def test_what_is_no_model_stays_in_an_object_store(bucket: str) -> None:
    zarr.create_array(zarr_target(f"{bucket}/rows"), shape=(3,), dtype="f4")[...] = 1
    zarr.open_group(zarr_target(f"{bucket}/group"), mode="w").create_array("weights", data=np.ones(3))
    OLD.save(f"{bucket}/notes")
    place_at(f"{bucket}/notes").replace("notes.txt", "results of a year")
    OLD.save(f"{bucket}/above/m")
    for name in ("rows", "group", "notes", "above"):
        before = names(f"{bucket}/{name}")
        assert before
        with pytest.raises(FileExistsError, match=f"{bucket}/{name}"):
            NEW.save(f"{bucket}/{name}", overwrite=True)
        assert names(f"{bucket}/{name}") == before
    with pytest.raises(ValueError, match=r"format is None, expected 'vmfa_dask\.mixture'"):
        MixtureModel.load(f"{bucket}/group")


def test_errors_of_the_store_are_not_damage(bucket: str, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    OLD.save(f"{bucket}/m")
    with failing_proxy(server, lambda method, path: 403) as port, environment_of(port):
        for call in (lambda: MixtureModel.load(f"{bucket}/m"), lambda: NEW.save(f"{bucket}/m", overwrite=True)):
            with pytest.raises(OSError, match=f"{bucket}/m.* cannot be") as found:
                call()
            assert "damaged" not in str(found.value)


@pytest.mark.parametrize("scheme", ["file://", "FILE://", "file://localhost"])
def test_file_urls_are_folders(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "a model"
    OLD.save(f"{scheme}{str(path).replace(' ', '%20')}")
    assert MixtureModel.load(path) == OLD
    assert MixtureModel.load(f"{scheme}{str(path).replace(' ', '%20')}") == OLD


def test_home_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    OLD.save("~/m")
    assert (tmp_path / "m" / "zarr.json").exists()
    assert MixtureModel.load(Path("~/m")) == OLD


@pytest.mark.parametrize(
    "url", ["memory://m", "http://host/m", "https://host/m", "ftp://host/m", "hdfs://h/m", "S4://b/m", "x+y://m"]
)
def test_other_schemes_are_refused(url: str) -> None:
    for call in (lambda: OLD.save(url), lambda: OLD.save(url, overwrite=True), lambda: MixtureModel.load(url)):
        with pytest.raises(ValueError, match=r"expected a folder or the URL of an object store \(s3, "):
            call()


def test_urls_that_lost_a_slash_are_refused() -> None:
    for url in (Path("s3://bucket/m"), "s3:/bucket/m", "memory:/m", Path("file:///m")):
        for call in (lambda url=url: OLD.save(url), lambda url=url: MixtureModel.load(url)):
            with pytest.raises(ValueError, match="looks like a URL that has lost a slash"):
                call()
