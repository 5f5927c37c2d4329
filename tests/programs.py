"""Programs of tests: Python in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.objects import environment_of, make_bucket, object_server

ROOT = Path(__file__).parents[1]
"""The checkout, which holds the package."""


def run_python(
    *arguments: str, folder: Path = ROOT, timeout: float = 100, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, which must be a success, with the package and working directory in `folder`."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run_page(program: str, folder: Path, timeout: float) -> str:
    """Output of the code of a page in its own process and folder, with ``s3://bucket`` to write to."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    with object_server() as port, environment_of(port):
        make_bucket(port, "bucket")
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
