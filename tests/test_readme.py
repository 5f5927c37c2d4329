"""What the README and the other pages tell a reader to type works, and what they link to is there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from tests.data_prep.image_files import encoded, noise, write_folder, write_tar
from tests.programs import run_page
from vmfa_dask import MixtureModel
from vmfa_dask.command import main
from vmfa_dask.command.entry import PROGRAM

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SECONDS = 250.0  # compiles all kernels in a fresh checkout, beside other work on two slow cores

# What a block of the README runs in, apart from the blocks before it: the dashboard stays on loopback, on a free port.
PREAMBLE = """
import functools, logging, distributed
logging.getLogger("distributed").setLevel(logging.ERROR)
distributed.LocalCluster.__init__ = functools.partialmethod(
    distributed.LocalCluster.__init__, dashboard_address="127.0.0.1:0"
)
"""
# What the blocks are expected to have made, besides raising nothing.
CHECKS = """
import os
assert densities.shape == labels.shape == (20_000,) and len(outliers) == 10
assert (fit.model.n_components, fit.model.n_factors) == (10, 3)
assert bounds.free_energy <= bounds.score <= bounds.upper and covariance.shape == (64, 64)
assert detached.status == "finished" and os.path.exists("runs/images/state.json")
print("all blocks have run")
"""


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Fenced blocks of a language: the number of the first line, and the text."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def commands(page: Path) -> list[list[str]]:
    """Commands of `python -m` and `vmfa-dask`, and those of make, in the code of a page, as lists of words."""
    text = page.read_text(encoding="utf-8")
    program = r"(?:[\w./]*python -m|[\w./]*vmfa-dask|make)"
    lines = re.findall(rf"^(?:\$ |    )({program} .+)$", text, re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(rf"`({program} [^`]+)`", text)]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_blocks_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    source = [PREAMBLE]
    for number, block in blocks(README, "python"):
        # Compiled with the lines of the page, so that a traceback names the block that breaks.
        source.append(f"exec(compile('\\n' * {number - 1} + {block!r}, {str(README)!r}, 'exec'))")
    assert len(source) > 6
    output = run_page("\n".join([*source, CHECKS]), tmp_path, SECONDS)
    assert output.endswith("all blocks have run\n")


@pytest.mark.slow
def test_the_commands_of_the_readme_make_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pictures = {f"{k}.png": encoded(noise(k, 40, 36)) for k in range(60)}
    write_folder(tmp_path / "photos", pictures)
    write_tar(tmp_path / "more.tar", {f"more-{name}": content for name, content in pictures.items()})
    for part in range(2):
        rows = np.random.default_rng(part).normal(size=(10, 4)).astype(np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
        pq.write_table(pa.table({"name": ["a"] * 10, "embedding": column}), f"part-{part}.parquet")
    tried = []
    for _, block in blocks(README, "console"):
        for line in block.splitlines():
            program, *words = shlex.split(line.removeprefix("$ "))
            if program.endswith("vmfa-dask"):
                assert not main([*words, "-q"])
                tried.append(words[0])
    assert tried == ["prepare", "prepare", "prepare", "fit", "prepare", "fit"]
    models = [MixtureModel.load(path) for path in ("model.zarr", "pictures-model.zarr")]
    assert models[0] == models[1]
    assert models[0].feature_shape == (32, 32, 3)
    photos = zarr.open_group("photos.zarr", mode="r")
    sizes = [photos[name].shape for name in ("train", "test")]
    assert sum(shape[0] for shape in sizes) == 120
    assert {shape[1:] for shape in sizes} == {(32, 32, 3)}
    assert zarr.open_array("embeddings.zarr", mode="r").shape == (20, 4)


# Options of pages that stand for others: a placeholder, and a slip that shows an error.
PLACEHOLDERS, SLIPS = {"COMMAND", "NAME"}, {"--n-componets"}


def unknown_options(words: list[str]) -> set[str]:
    """Options of a call of the command line that its command does not have, and commands that do not exist."""
    command: click.Command | None = PROGRAM
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        if name in PLACEHOLDERS:
            return set()
        command = command.get_command(click.Context(command), name)
        if command is None:
            return {name}
    assert command is not None
    known = {flag for param in command.get_params(click.Context(command)) for flag in param.opts}
    return {word.strip("[]") for word in words if word.startswith(("-", "[-"))} - known - SLIPS


@pytest.mark.slow
def test_commands_of_all_pages_exist_with_their_options() -> None:
    """Commands show their help, which has every option that a page uses; targets are those of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    options: dict[str, set[str]] = {}
    for page in PAGES:
        for words in commands(page):
            if words[0] == "make":
                assert set(words[1:]) <= targets, f"{page.name}: {' '.join(words)}"
            elif words[0].endswith("vmfa-dask"):
                assert unknown_options(words[1:]) == set(), f"{page.name}: {' '.join(words)}"
            elif words[2].startswith("tests."):  # not all of these have options
                assert importlib.util.find_spec(words[2]), f"{page.name}: {' '.join(words)}"
            elif words[2].startswith("benchmarks") and not words[2].endswith(".NAME"):
                options.setdefault(words[2], set()).update(word.strip("[]") for word in words if "--" in word)
    assert len(options) > 4
    program = """
        import contextlib, io, json, runpy, sys
        texts = {}
        for module in sys.argv[1:]:
            sys.argv = [module, "--help"]
            with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            texts[module] = text.getvalue()
        print(json.dumps(texts))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for module, text in json.loads(done.stdout).items():
        assert text.startswith("usage:"), module
        known = set(re.findall(r"--[a-z][a-z-]*", text))
        assert options[module] <= known, f"{module}: {sorted(options[module] - known)}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked by, as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name}: {target}"
