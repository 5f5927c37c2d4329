"""Kept runs: how tests resume them and change their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import Client

from vmfa_dask import Fit, fit_distributed
from vmfa_dask.store.strict import sealed

Change = Callable[[dict[str, Any]], Any]


def change(path: Path, change: Change) -> None:
    """Change the values of a JSON file in place."""
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values, indent=1))


def seal(path: Path) -> None:
    """Give a JSON file the checksum of what it holds."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    path.write_text(json.dumps(sealed(values), indent=1))


def as_format_1(run: Path, edit: Change = lambda known: None) -> None:
    """Make a run one of format 1, as earlier versions have written it, with an edited identity."""
    for path in run.glob("*.json"):
        change(path, lambda values: [values.pop(name, None) for name in ("checksum", "versions", "run")])
    change(run / "run.json", lambda values: values["format"].update(version=1))
    change(run / "run.json", edit)


def resume(data: Any, client: Client, run: str, **options: Any) -> tuple[Fit, list[int]]:
    """Resume a run on a cluster; returns the numbers of the passes that were left to do as well."""
    passes: list[int] = []
    fit = fit_distributed(
        data,
        client=client,
        run=run,
        resume="require",
        progress=lambda record: passes.append(record.iteration),
        **options,
    )
    return fit, passes
