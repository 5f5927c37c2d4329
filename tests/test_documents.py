"""What the documents say of the code is so: the picture of the rooms, the tasks of a pass, and every file they name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.test_architecture import MODULES, PACKAGE, imports_of, room_of

ROOT = PACKAGE.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
# Modules that nearly all rooms import, and the script on top; their arrows would hide the others.
LEFT_OUT = {"", "sizes", "tables", "addresses", "__main__", "__version__"}
# Of the authors' code, which data sets are compared with.
ELSEWHERE = {"utils/image_batch_provider.py"}


def room_imports() -> set[tuple[str, str]]:
    """(room, room that it imports) for all modules of the package."""
    found = set()
    for path in MODULES:
        package = ".".join(["vmfa_dask", *path.relative_to(PACKAGE).parts[:-1]])
        for module, name in imports_of(path.read_text(), package):
            parts = module.split(".")
            if parts[0] == "vmfa_dask":
                found.add((room_of(path), parts[1] if len(parts) > 1 else str(name)))
    return {(a, b) for a, b in found if a != b and not {a, b} & LEFT_OUT}


def without_shortcuts(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Arrows that no path over other rooms replaces."""

    def reaches(a: str, b: str) -> bool:
        return any(x == a and (y == b or reaches(y, b)) for x, y in arrows)

    return {(a, b) for a, b in arrows if not any(x == a and y != b and reaches(y, b) for x, y in arrows)}


def test_the_picture_of_the_rooms_is_that_of_the_code() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", ARCHITECTURE, re.MULTILINE))
    assert drawn == without_shortcuts(room_imports())


def test_the_picture_of_an_iteration_names_the_tasks_of_a_pass() -> None:
    (picture,) = re.findall(r"```mermaid\n(sequenceDiagram.*?)```", ARCHITECTURE, re.DOTALL)
    tree = ast.parse((PACKAGE / "run" / "passes.py").read_text())
    tasks = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("vmfa_dask.run.tasks")
        for alias in node.names
        if alias.name[0].islower()
    }
    # Cutting a block out of a result is a part of sending it.
    assert set(re.findall(r"\b\w+_\w+\b", picture)) == tasks - {"pick_block"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_documents_name_exist(path: Path) -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|toml))`", path.read_text()))
    missing = {name for name in named if not any((folder / name).exists() for folder in (PACKAGE, ROOT, path.parent))}
    assert missing - ELSEWHERE == set()


def test_tests_that_the_makefile_names_exist() -> None:
    named = set(re.findall(r"(?<![\w/])tests/[\w/.]+", (ROOT / "Makefile").read_text()))
    assert len(named) > 4
    assert {name for name in named if not (ROOT / name).exists()} == set()
