"""Programs of tests: Python in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
