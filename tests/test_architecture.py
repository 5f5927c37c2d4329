"""Rooms import only downward, and no file grows too long: read from the syntax tree of every module."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

PACKAGE = Path(__file__).parents[1] / "vmfa_dask"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Room -> (rooms of the package it may import, third-party packages it may import).
_NUMBERS = {"sizes", "values", "tables", "addresses", "runtime", "kernels"}
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "sizes": (set(), {"numpy"}),
    "values": ({"sizes", "values"}, {"numpy"}),
    "tables": (set(), {"numpy"}),
    "addresses": (set(), set()),
    "runtime": ({"values", "runtime"}, {"numpy"}),
    "kernels": ({"kernels"}, {"numpy", "numba", "llvmlite"}),
    "em": ({"values", "runtime", "kernels", "em"}, {"numpy"}),
    "seeding": ({"sizes", "values", "runtime", "kernels", "em", "seeding"}, {"numpy"}),
    "run": (_NUMBERS | {"em", "seeding", "run"}, {"numpy"}),
    "store": (
        {"values", "tables", "addresses", "runtime", "store"},
        {"numpy", "zarr", "numcodecs", "xarray", "filelock", "obstore", "google_crc32c"},
    ),
    "data_prep": (
        {"data_prep"},
        {"numpy", "zarr", "filelock", "google_crc32c", "distributed", "PIL", "h5py", "pyarrow", "scipy"},
    ),
    "cluster": (
        {"values", "tables", "runtime", "kernels", "run", "store", "cluster"},
        {"numpy", "dask", "distributed", "tornado", "filelock", "numba", "bokeh", "prometheus_client"},
    ),
    "apply": (_NUMBERS | {"em", "run", "store", "apply"}, {"numpy", "zarr", "xarray"}),
    "service": (
        _NUMBERS | {"em", "run", "store", "cluster", "apply", "service"},
        {"numpy", "zarr", "xarray", "sklearn"},
    ),
    "command": (
        {"tables", "run", "store", "cluster", "apply", "service", "data_prep", "command", "__version__"},
        {"numpy", "click", "zarr", "PIL"},
    ),
    "__main__": ({"command"}, set()),
    "plot": ({"values", "run", "apply", "plot"}, {"numpy", "matplotlib"}),
    "": ({"values", "run", "apply", "service", "plot"}, set()),  # vmfa_dask/__init__.py, for its list of names
}
LONGEST_FILE = 300


def room_of(path: Path) -> str:
    """Room of a module of the package: its folder, or its name at the top; "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imports_of(source: str, package: str) -> Iterator[tuple[str, str | None]]:
    """Every import at any depth as ``(module, name)``; relative ones are resolved against the dotted `package`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield module, alias.name


def violations(source: str, room: str) -> list[str]:
    """Imports of a module in `room` that its room does not allow."""
    rooms, packages = ALLOWED[room]
    found = []
    for module, name in imports_of(source, f"vmfa_dask.{room}" if room else "vmfa_dask"):
        top, *rest = module.split(".")
        if top == "vmfa_dask":
            target = rest[0] if rest else name
            allowed = target in rooms
        else:
            allowed = top in packages or top in sys.stdlib_module_names
        if not allowed:
            found.append(f"{room or 'the package'} imports {module}" + (f": {name}" if name else ""))
    return found


def test_modules_are_found() -> None:
    assert {room_of(path) for path in MODULES} == set(ALLOWED)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    assert violations(path.read_text(), room_of(path)) == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("values", "import zarr"),
        ("values", "from vmfa_dask.run.settings import Settings"),
        ("kernels", "from vmfa_dask.values import Mixture"),
        ("em", "def f():\n    import dask.array"),
        ("em", "def f():\n    if True:\n        from vmfa_dask.store.rows import ZarrRows"),
        ("em", "from vmfa_dask.run.settings import Settings"),
        ("em", "from vmfa_dask.seeding import moves"),
        ("seeding", "from vmfa_dask.run.context import RunContext"),
        ("run", "from ..cluster import executor"),
        ("run", "def f():\n    import dask.array"),
        ("em", "from vmfa_dask import service"),
        ("store", "from vmfa_dask.run.row_source import RowSource"),
        ("store", "import numba"),
        ("cluster", "from vmfa_dask.service.fit import fit_local"),
        ("cluster", "from vmfa_dask.apply.model import MixtureModel"),
        ("plot", "import bokeh"),
        ("apply", "from vmfa_dask.cluster.memory_check import check_memory"),
        ("apply", "class A:\n    def f(self):\n        from distributed import Client"),
        ("apply", "from vmfa_dask import plot"),
        ("command", "from vmfa_dask.em import e_step"),
        ("command", "def f():\n    from distributed import Client"),
        ("service", "from vmfa_dask.command import main"),
        ("data_prep", "from vmfa_dask.store.gate import is_in_a_store"),
        ("plot", "import matplotlib\nfrom vmfa_dask.service.fit import fit_local"),
        ("service", "from distributed import Client"),
        ("service", "import dask"),
        ("service", "def f():\n    from distributed import get_client"),
        ("", "from vmfa_dask.cluster.worker_context import register"),
    ],
)
def test_checker_flags_upward_imports(room: str, source: str) -> None:
    assert len(violations(source, room)) == 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("em", "from vmfa_dask.kernels import vector\nfrom .rows import Rows\nimport math"),
        ("cluster", "from vmfa_dask.run.plan import Plan\nfrom distributed import Client"),
        ("service", "from vmfa_dask.cluster.clients import connect"),
    ],
)
def test_checker_lets_downward_imports_pass(room: str, source: str) -> None:
    assert violations(source, room) == []


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: n for name, n in lengths.items() if n >= LONGEST_FILE} == {}


# What the rooms do, on their own: each prints a hash of its numbers.
WORK = {
    "em": """
        import numpy as np
        from tests.em.runs import make_context, train
        from vmfa_dask.run.settings import Settings
        rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
        state, mixture = train(make_context(rows, Settings(3, 1, max_iter=3)))
        found = mixture.means.tobytes() + mixture.loadings.tobytes()
        """,
    "apply": """
        from tests.samples import draw, make_mixture
        from vmfa_dask.apply.model import MixtureModel
        found = MixtureModel.of(make_mixture(3, 4, 1)).score_samples(draw(make_mixture(3, 4, 1), 200)).tobytes()
        """,
}


@pytest.mark.parametrize(
    ("room", "absent"),
    [
        ("em", ["dask", "distributed", "zarr", "xarray", "vmfa_dask.store"]),
        ("apply", ["dask", "distributed", "xarray", "matplotlib"]),
    ],
)
@pytest.mark.slow
def test_rooms_work_where_what_they_may_not_import_is_absent(room: str, absent: list[str]) -> None:
    def work(blocked: list[str]) -> str:
        code = f"import sys, hashlib\nsys.modules.update(dict.fromkeys({blocked!r}))\n{dedent(WORK[room])}"
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\nprint(hashlib.sha256(found).hexdigest())"],
            check=True,
            timeout=100,
            capture_output=True,
            text=True,
            cwd=PACKAGE.parent,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        )
        return done.stdout

    assert work(absent) == work([]) != ""
