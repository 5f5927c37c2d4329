"""What editors, notebooks and type checkers learn of a fit: its keywords, their types, and its result."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import vmfa_dask
from vmfa_dask import Settings, fit_distributed, fit_local
from vmfa_dask.run.choices import CHOICES as CHOICES_OF_SETTINGS
from vmfa_dask.service.call import checked_call
from vmfa_dask.service.inputs import PRESETS
from vmfa_dask.service.keywords import DEFAULTS, ClusterKeywords, LocalKeywords, SettingsKeywords
from vmfa_dask.service.options import Options
from vmfa_dask.store.runs import RESUME

ROOT = Path(__file__).parents[2]
CHOICES = {
    **{name: values for name, values in CHOICES_OF_SETTINGS.items() if values != (True, False)},
    "preset": tuple(PRESETS),
    "resume": RESUME,
    "missing_chunks": ("refuse", "fill"),
}


def alternatives(annotation: Any) -> set[Any]:
    """The members of a union, without None; literals as their type."""
    if get_origin(annotation) in (Union, UnionType):
        members = set().union(*map(alternatives, get_args(annotation)))
    elif get_origin(annotation) is Literal:
        members = {type(value) for value in get_args(annotation)}
    else:
        members = {annotation}
    return members - {NoneType}


def literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((get_args(member) for member in get_args(annotation) if get_origin(member) is Literal), ())


def test_the_keywords_of_settings_are_its_fields() -> None:
    hints, keywords = get_type_hints(Settings), get_type_hints(SettingsKeywords)
    assert [field.name for field in fields(Settings)] == ["n_components", *keywords]
    for name, annotation in keywords.items():
        assert alternatives(annotation) == alternatives(hints[name]), name
        assert (DEFAULTS[name] is None) == (NoneType in get_args(annotation)), name


def test_choices_are_those_that_are_checked() -> None:
    keywords = get_type_hints(ClusterKeywords)
    assert {name: literals(hint) for name, hint in keywords.items() if literals(hint)} == CHOICES


def test_the_other_keywords_are_the_options() -> None:
    options = {field.name for field in fields(Options)} - {"detach"}
    assert options <= set(ClusterKeywords.__annotations__)
    assert set(ClusterKeywords.__annotations__) - set(LocalKeywords.__annotations__) == {
        "client", "scratch", "worker_timeout",
    }  # fmt: skip


@pytest.mark.parametrize(("function", "kind"), [(fit_distributed, ClusterKeywords), (fit_local, LocalKeywords)])
def test_signatures_name_every_keyword(function: Any, kind: Any) -> None:
    parameters = inspect.signature(function).parameters
    explicit = ["data", "n_components", *(["detach"] if kind is ClusterKeywords else [])]
    assert list(parameters) == [*explicit, *kind.__annotations__]
    assert {p.kind for p in parameters.values()} == {
        inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY,
    }  # fmt: skip
    for name in kind.__annotations__:
        assert parameters[name].default == DEFAULTS[name]
        assert name in function.__doc__ or function is fit_local


def test_the_defaults_that_are_shown_change_nothing() -> None:
    shown = {name: DEFAULTS[name] for name in LocalKeywords.__annotations__}
    call, plain = checked_call(LocalKeywords, 5, shown), checked_call(LocalKeywords, 5, {})
    assert (call.options, call.selection, call.start) == (plain.options, plain.selection, plain.start)
    assert Settings(**call.asked) == Settings(**plain.asked)


def test_only_the_keywords_of_a_fit_are_taken() -> None:
    with pytest.raises(TypeError, match="unknown argument 'client'; the settings of a run are n_components, "):
        fit_local([[0.0, 1.0]], n_components=1, client="tcp://127.0.0.1:1")  # type: ignore[call-arg]


USE = """
from vmfa_dask import fit_distributed, fit_local
reveal_type(fit_distributed("x.zarr", n_components=3, n_factors=2, resume="never"))
reveal_type(fit_distributed("x.zarr", n_components=3, run="r", detach=True))
reveal_type(fit_local("x.zarr", n_components=3))
fit_local("x.zarr", n_components=3, search="gided")
fit_local("x.zarr", n_components=3, n_clusters=3)
"""


@pytest.mark.long
@pytest.mark.slow
def test_type_checkers_know_keywords_and_results(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache"), str(tmp_path / "use.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines() if "use.py:" in line]
    results = ("training.Fit", "detached.DetachedRun", "training.Fit")
    assert [line for line in lines if "Revealed" in line] == [
        f'note: Revealed type is "vmfa_dask.service.{name}"' for name in results
    ]
    assert any('"search"' in line or "gided" in line for line in lines)
    assert any("n_clusters" in line for line in lines)


def test_the_package_lists_its_names() -> None:
    assert dir(vmfa_dask) == sorted([*vmfa_dask.__all__, "__version__", "plot"])
    assert set(vmfa_dask.__all__) == set(vmfa_dask._HOMES)
    for name in vmfa_dask.__all__:
        assert getattr(vmfa_dask, name).__name__ == name
    assert vmfa_dask.plot.__name__ == "vmfa_dask.plot"


def test_the_package_loads_nothing_before_it_is_used() -> None:
    packages = {"numpy", "dask", "zarr", "numba", "xarray", "matplotlib"}
    code = f"import sys, vmfa_dask; dir(vmfa_dask); print({packages} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
