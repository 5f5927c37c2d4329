"""Scripts and notebooks in `notebooks` run; the demos, which take minutes, have tests of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.terminals import screen

ROOT = Path(__file__).parents[1]
LONG = {"demo", "demo_patches"}
SCRIPTS = [path for path in sorted((ROOT / "notebooks").glob("*.py")) if path.stem not in LONG]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_BYTES = 150_000
# What remains of the line in which a fit shows how it goes.
PROGRESS = re.compile(r"(warm-up|training|final): \d+ pass(es)? in |dashboard: |$")
# Folders of a machine, and addresses other than the one that stands for all dashboards.
FOREIGN = re.compile(r"/(?:tmp|home|root|work|Users|private|var)/|\d+\.\d+\.\d+\.\d+(?<!127\.0\.0\.1)|Warning")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_the_script_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def outputs_of(notebook: Any) -> list[Any]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
    program = "import sys; from tests import notebook_files; notebook_files.run_small(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = outputs_of(json.loads((tmp_path / path.name).read_text(encoding="utf-8")))
    assert any("image/png" in output.get("data", ()) for output in outputs)
    errors = ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]
    assert not [line for text in errors for line in screen(text) if not PROGRESS.match(line)]
    assert not [output for output in outputs if output["output_type"] == "error"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs_are_small_and_of_no_machine(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert 'QUICK = bool(os.environ.get("VMFA_QUICK"))' in "".join(cells[0]["source"])
    outputs = outputs_of(notebook)
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    texts = ["".join(output["text"]) for output in outputs if "text" in output]
    texts += ["".join(text) for output in outputs for kind, text in output.get("data", {}).items() if "text" in kind]
    assert texts
    assert not [text for text in texts if FOREIGN.search(text)]
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
