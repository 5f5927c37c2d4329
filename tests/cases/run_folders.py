"""Folders of runs, and what else lies in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.cases.ended_driver import OPTIONS, ROWS
from tests.samples import make_mixture
from vmfa_dask import Fit, MixtureModel, fit_local

MODEL = MixtureModel.of(make_mixture(2, 5, 1, dtype="float32"))


def contents(folder: Path) -> dict[str, Any]:
    """Everything below a folder: bytes of files, targets of links."""

    def content(path: Path) -> Any:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None

    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*")}


def fit(run: Path | str, **options: Any) -> Fit:
    """Train a small model, and keep every pass in a folder."""
    return fit_local(ROWS, **{**OPTIONS, **options}, run=run, checkpoint_share=1)


def notes(folder: Path) -> None:
    """Write a file that is not the run's."""
    (folder / "notes.txt").write_text("results of a year")
