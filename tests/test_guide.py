"""The blocks of the guide run, print what the guide shows, and its messages and reference are those of the package."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import vmfa_dask
from tests.programs import run_page

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
SECONDS = 250.0  # compiles kernels in a fresh checkout, beside other work on two slow cores

# Runs the pages one after the other in one process, each with names and a folder of its own.
PROGRAM = """
import contextlib, functools, io, json, logging, os, sys

if __name__ == "__main__":
    import distributed

    logging.getLogger("distributed").setLevel(logging.ERROR)
    distributed.LocalCluster.__init__ = functools.partialmethod(
        distributed.LocalCluster.__init__, dashboard_address="127.0.0.1:0"
    )
    with open("pages.json") as file:
        pages = json.load(file)
    printed, folder = {}, os.getcwd()
    for page, blocks in pages.items():
        names = {"__name__": "__main__"}
        os.makedirs(os.path.join(folder, os.path.basename(page)))
        os.chdir(os.path.join(folder, os.path.basename(page)))
        printed[page] = []
        for number, block in blocks:
            with contextlib.redirect_stdout(io.StringIO()) as output:
                # Compiled with the lines of the page, so that a traceback names the block that breaks.
                exec(compile("\\n" * (number - 1) + block, page, "exec"), names)
            printed[page].append(output.getvalue())
    os.chdir(folder)
    with open("printed.json", "w") as file:
        json.dump(printed, file)
"""
# A block, and the output that the page shows below it.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Blocks of a page: the number of the first line, the code, and the output that is shown."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)) + 1, match[1], match[2]) for match in BLOCK.finditer(text)]


def shape_of(output: str) -> str:
    """An output without its digits, which differ between processors, and without what aligns them."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d,.]*(?:e[+-]\d+)?", "#", output)).strip()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_blocks_of_the_guide_run_and_print_what_it_shows(tmp_path: Path) -> None:
    pages = {str(page): blocks(page) for page in sorted(GUIDE.glob("*.md"))}
    assert sum(len(found) for found in pages.values()) > 30
    code = {page: [(number, block) for number, block, _ in found] for page, found in pages.items() if found}
    (tmp_path / "pages.json").write_text(json.dumps(code), encoding="utf-8")
    run_page(PROGRAM, tmp_path, SECONDS)
    printed = json.loads((tmp_path / "printed.json").read_text(encoding="utf-8"))
    for page, found in pages.items():
        for (number, _, shown), output in zip(found, printed.get(page, []), strict=True):
            if shown is not None:
                assert shape_of(output) == shape_of(shown), f"{page}, line {number}"


def messages_of_the_package() -> list[str]:
    """Every text in the source of the package, cut where a value is filled in."""
    return [
        node.value
        for path in sorted((ROOT / "vmfa_dask").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_messages_that_the_guide_explains_are_those_of_the_package() -> None:
    """Quoted messages have … where the package fills in a value; what is between is in its source."""
    page = (GUIDE / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(quoted) > 12
    texts = messages_of_the_package()
    for message in quoted:
        for part in re.sub(r"\s+", " ", message).split("…"):
            assert any(part.strip() in re.sub(r"\s+", " ", text) for text in texts), part


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.rst"))
    described = set(re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", pages, re.MULTILINE))
    listed = set(re.findall(r"^   (\w+)$", (ROOT / "docs" / "api" / "index.rst").read_text(), re.MULTILINE))
    assert set(vmfa_dask.__all__) <= described
    assert set(vmfa_dask.__all__) <= listed


def test_the_guide_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^guide/(\w+)$", contents, re.MULTILINE))
    assert listed == {page.stem for page in GUIDE.glob("*.md")}
