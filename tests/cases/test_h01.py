"""H01: no code runs when a model or a run is read: own files are Zarr format 3, of the few kinds that are written."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.kept import change
from tests.objects import environment_of, make_bucket, object_server
from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.store.objects import zarr_target
from vmfa_dask.store.places import place_at

ROWS = draw(make_mixture(3, 5, 2), 90, dtype="float32")
OPTIONS: dict[str, Any] = {"n_components": 3, "n_factors": 2, "n_groups": 2, "max_warmup_iter": 1, "tol": 0.0}
MODEL = MixtureModel.of(make_mixture(3, 5, 2))
RAN: list[str] = []


def ran() -> None:
    """What the planted pickle calls."""
    RAN.append("code")


class Planted:
    """Pickled, it runs code when it is read."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return ran, ()


PICKLE = pickle.dumps(Planted())


def array_of_format_2(node: Path, **members: Any) -> None:
    """An array of format 2 whose only chunk is the planted pickle."""
    shutil.rmtree(node, ignore_errors=True)
    node.mkdir()
    values = {
        "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "compressor": None, "fill_value": None,
        "order": "C", "filters": [{"id": "pickle", "protocol": 5}], **members,
    }  # fmt: skip
    (node / ".zarray").write_text(json.dumps(values))
    (node / ".zattrs").write_text("{}")
    (node / "0").write_bytes(PICKLE)


def object_dtype(node: Path) -> None:
    array_of_format_2(node)


def pickle_compressor(node: Path) -> None:
    array_of_format_2(node, dtype="<f8", filters=None, compressor={"id": "pickle"})


def whole_in_format_2(node: Path) -> None:
    """The group in format 2 as well, with its attributes."""
    attributes = json.loads((node.parent / "zarr.json").read_text())["attributes"]
    (node.parent / "zarr.json").unlink()
    (node.parent / ".zgroup").write_text('{"zarr_format": 2}')
    (node.parent / ".zattrs").write_text(json.dumps(attributes))
    array_of_format_2(node)


def edited(**members: Any) -> Callable[[Path], None]:
    return lambda node: change(node / "zarr.json", lambda values: values.update(members))


FILTER = {"name": "numcodecs.pickle", "configuration": {}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
PLANTS: dict[str, Callable[[Path], None]] = {
    "object dtype of format 2": object_dtype,
    "pickle compressor of format 2": pickle_compressor,
    "group of format 2": whole_in_format_2,
    "unknown codec": edited(codecs=[FILTER, BYTES, {"name": "crc32c"}]),
    "codec without checksum": edited(codecs=[BYTES]),
    "codec of another name": edited(codecs=[{"name": "zstd", "configuration": {"level": 1}}]),
    "dtype of variable length": edited(data_type="variable_length_bytes"),
    "dtype with configuration": edited(data_type={"name": "numpy.datetime64", "configuration": {"unit": "s"}}),
    "dtype of another array": edited(data_type="int64"),
    "format number": edited(zarr_format=2),
    "format as true": edited(zarr_format=True),
    "node type": edited(node_type="group"),
    "storage transformer": edited(storage_transformers=[{"name": "x"}]),
    "extension": edited(must_run={"name": "x"}),
    "grid": edited(chunk_grid={"name": "rectangular", "configuration": {"chunk_shape": [3]}}),
    "chunks of none": edited(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0]}}),
    "keys of format 2": edited(chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}}),
    "endless shape": edited(
        shape=[10**18], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [10**18]}}
    ),
    "negative shape": edited(shape=[-3]),
    "shape of true": edited(shape=[True]),
    "no shape": edited(shape=None),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a run."""
    folder = tmp_path_factory.mktemp("kept")
    fit_local(ROWS, **OPTIONS, max_iter=2, run=str(folder / "run"))
    MODEL.save(folder / "model")
    return folder


def group_of(folder: Path, where: str) -> Path:
    if where == "model":
        return folder / "model"
    return next((folder / "run" / "versions" / "parameters").glob("*/00000"))


def load(folder: Path, where: str) -> Any:
    if where == "model":
        return MixtureModel.load(folder / "model")
    return fit_local(ROWS, **OPTIONS, max_iter=3, run=str(folder / "run"))


def refusal(folder: Path, where: str) -> str:
    """The one line with which a model or a run is refused, without anything of it being run."""
    RAN.clear()
    with pytest.raises(ValueError) as found:  # noqa: PT011 (callers compare the words)
        load(folder, where)
    assert RAN == []
    words = str(found.value)
    assert "\n" not in words
    return words


@pytest.mark.parametrize("where", ["model", "run"])
@pytest.mark.parametrize("plant", PLANTS.values(), ids=list(PLANTS))
def test_what_is_planted_is_refused_by_path_and_array(
    kept: Path, tmp_path: Path, where: str, plant: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    node = group_of(folder, where) / "weights"
    monkeypatch.setattr(zarr.core.metadata.v3, "ArrayV3Metadata", None)  # Zarr has no part in reading
    plant(node)
    message = refusal(folder, where)
    assert str(node.parent) in message
    assert "'weights'" in message or plant is whole_in_format_2


def test_the_planted_pickle_would_run_code() -> None:
    RAN.clear()
    pickle.loads(PICKLE)
    assert RAN == ["code"]


@pytest.mark.parametrize("level", ["", "parameters"])
def test_groups_of_format_2_around_versions_are_refused(kept: Path, tmp_path: Path, level: str) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    group = folder / "run" / "versions" / level
    (group / "zarr.json").unlink()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    assert f"{group} holds .zgroup, so it is Zarr format 2" in refusal(folder, "run")


@pytest.mark.parametrize("where", ["model", "run"])
def test_what_lies_beside_or_is_consolidated_counts_for_nothing(kept: Path, tmp_path: Path, where: str) -> None:
    expected = load(shutil.copytree(kept, tmp_path / "clean"), where)
    folder = shutil.copytree(kept, tmp_path / "here")
    group = group_of(folder, where)
    array_of_format_2(group / "beside")
    (group / "weights" / ".zarray").write_text(json.dumps({"zarr_format": 2, "dtype": "|O"}))
    planted = {"kind": "inline", "must_understand": False, "metadata": {"weights": {"data_type": "object"}}}
    change(group / "zarr.json", lambda values: values.update(consolidated_metadata=planted))
    RAN.clear()
    found = load(folder, where)
    assert RAN == []
    model, other = (found, expected) if where == "model" else (found.model, expected.model)
    assert parameters(model) == parameters(other)


@pytest.mark.parametrize("name", ["../../weights", "/etc", "", "a b", "weights/../means"])
def test_names_lead_nowhere_else(kept: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    change(group_of(folder, "run") / "zarr.json", lambda values: values["attributes"].update(arrays=[name]))
    assert f"{name!r} is not a valid name of an array" in refusal(folder, "run")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_long_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


FILES = ["model/zarr.json", "model/weights/zarr.json", "model/weights/c/0", "run/run.json", "run/data.json",
         "run/state.json", "run/versions/parameters/*/00000/zarr.json",
         "run/versions/parameters/*/00000/means/c/0/0"]  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("thing", [a_pipe, a_device, a_loop, a_folder, a_long_file], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_regular_file_is_not_waited_for(
    kept: Path, tmp_path: Path, name: str, thing: Callable[[Path], None]
) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    (path,) = folder.glob(name)
    path.unlink()
    thing(path)
    with pytest.raises((ValueError, OSError)) as found:
        load(folder, name.partition("/")[0])
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value)


def test_in_object_stores_the_same(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    object_dtype(tmp_path / "model" / "weights")
    with object_server() as port, environment_of(port):
        url = f"{make_bucket(port)}/m"
        MODEL.save(url)
        assert parameters(MixtureModel.load(url)) == parameters(MODEL)
        place, store = place_at(url), zarr_target(url).store
        whole = place.read("weights/zarr.json") or ""
        for text in (whole.replace("float64", "variable_length_bytes"), whole.replace("3\n", f"{10**18}\n"), "[" * 9):
            place.replace("weights/zarr.json", text)
            with pytest.raises(ValueError, match=rf"{url}: the array 'weights' is damaged"):
                MixtureModel.load(url)
        store.delete("weights/zarr.json")
        for file in (tmp_path / "model" / "weights").iterdir():
            store.put(f"weights/{file.name}", file.read_bytes())
        RAN.clear()
        with pytest.raises(ValueError, match=rf"{url}: the array 'weights' holds .zarray, so it is Zarr format 2"):
            MixtureModel.load(url)
        assert RAN == []
        store.delete("zarr.json")
        with pytest.raises(FileNotFoundError, match=rf"{url}: no model is stored there"):
            MixtureModel.load(url)


def test_arrays_of_any_byte_order_are_read(tmp_path: Path) -> None:
    """What a machine of the other byte order has written."""
    MODEL.save(tmp_path / "m")
    for name in ("weights", "means"):
        node = tmp_path / "m" / name
        zarr.create_array(
            str(node), shape=getattr(MODEL, name).shape, dtype="float64", chunks=getattr(MODEL, name).shape,
            serializer=zarr.codecs.BytesCodec(endian="big"), compressors=[zarr.codecs.Crc32cCodec()], overwrite=True,
        )[...] = getattr(MODEL, name)  # fmt: skip
    loaded = MixtureModel.load(tmp_path / "m")
    assert loaded.weights.dtype == np.float64
    assert parameters(loaded) == parameters(MODEL)
