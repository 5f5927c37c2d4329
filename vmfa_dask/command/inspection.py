"""``vmfa-dask inspect``: what a store, a model or a run holds. May import: command, apply, store, click."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.apply.summary import as_lines, as_size
from vmfa_dask.command.options import EXISTING, command
from vmfa_dask.store.inspection import bytes_on_disk, kind_of, model_attributes
from vmfa_dask.store.opening import open_arrays
from vmfa_dask.store.places import locate
from vmfa_dask.store.plain import mapped_file
from vmfa_dask.store.run_inspection import read_sections, read_state


@command("inspect")
@click.argument("path", type=EXISTING)
def inspect(path: str) -> None:
    """Say what is at PATH: a store of rows, a saved model or a run, with its sizes, dtypes and settings.

    Arrays of a model are read, and compared with their checksums.
    """
    where = locate(path)
    describe = {"run": _run, "model": _model, "file": _file, "arrays": _arrays}[kind_of(where)]
    size = bytes_on_disk(where)
    title, facts = describe(where)
    click.echo(as_lines(title, {**facts, **({} if size is None else {"on disk": as_size(size)})}))


def _model(path: str) -> tuple[str, Mapping[str, str]]:
    facts, description = MixtureModel.load(path).facts(), model_attributes(path)
    provenance = description.get("provenance", None) or {}
    settings = provenance.get("settings") or {}
    more = {name: str(value) for name, value in provenance.items() if name != "settings"}
    return f"model in {path}", {
        **facts,
        "format": f"{description['format']}, version {description['format_version']}",
        **more,
        **({"settings": _settings(settings)} if settings else {}),
    }


def _run(path: str) -> tuple[str, Mapping[str, str]]:
    sections, state = read_sections(path) or {}, read_state(path)
    data, settings, plan = (dict(sections.get(name) or {}) for name in ("data", "settings", "plan"))
    shape = " x ".join(map(str, data.get("feature_shape", ())))
    records = (state or {}).get("records", ())
    return f"run in {path}", {
        "rows": f"{data.get('n_rows', 0):,} of shape {shape}, {data.get('dtype')}",
        "components": str(settings.get("n_components")),
        "factors": str(settings.get("n_factors")),
        "groups": str(len(plan.get("groups", ()))),
        "phase": "not begun" if state is None else str(state.get("phase")),
        "passes": str(len(records)),
        "settings": _settings(settings),
    }


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _file(path: str) -> tuple[str, Mapping[str, str]]:
    array = mapped_file(path)
    return f"NumPy array in {path}", {"shape": _shape(array.shape), "dtype": array.dtype.name}


def _arrays(path: str) -> tuple[str, Mapping[str, str]]:
    expected = "expected a Zarr store of rows, a saved model, a run or a .npy file"
    try:
        arrays = open_arrays(path)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: found none of what this package writes or reads; {expected}") from error
    if not arrays:
        raise ValueError(f"{path}: found a Zarr group without arrays; {expected}")
    if "" in arrays:
        return f"Zarr array in {path}", _facts(arrays[""])
    return f"Zarr group in {path}", {
        name: ", ".join(f"{fact} {value}" for fact, value in _facts(array).items()) for name, array in arrays.items()
    }


def _facts(array: Any) -> dict[str, str]:
    facts = {"shape": _shape(array.shape), "dtype": str(array.dtype), "chunks": _shape(array.chunks)}
    if array.shards:
        facts["shards"] = _shape(array.shards)
    return {**facts, "format": f"Zarr {array.metadata.zarr_format}"}


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n}" for n in shape)
