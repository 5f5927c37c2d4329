"""Pictures of large fits: ``python -m benchmarks.scale.figure FOLDER``, from all tables that are there.

``passes.png``: seconds of a settled pass, by part, for each fit. ``memory.png``: memory while they run.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

_PHASES = ("read", "search", "log_joints", "truncation", "moments", "tallies", "update")


def _settled(path: Path) -> dict[str, float]:
    """Median seconds of the training passes of a fit, by phase; those of its warm-up where it has no others."""
    with path.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    passes = [row for row in table if row["phase"] == "training"][1:] or [r for r in table if r["phase"] == "warm-up"]
    seconds = {name: median(float(row.get(name) or 0) for row in passes) for name in _PHASES}
    rest = median(float(row["seconds"]) for row in passes) - sum(seconds.values())
    return {**seconds, "rest": max(0.0, rest)}


def _draw_passes(tables: list[Path], target: Path) -> None:
    figure = Figure(figsize=(8, 1.2 + 0.45 * len(tables)), layout="constrained")
    ax = figure.subplots()
    fits = {path.stem: _settled(path) for path in tables}
    for number, seconds in enumerate(fits.values()):
        left, whole = 0.0, sum(seconds.values())
        for k, (name, value) in enumerate(seconds.items()):
            ax.barh(number, value / whole, left=left, color=f"C{k}", label=name if number == 0 else None)
            left += value / whole
        ax.text(1.01, number, f"{whole:.2f} s", va="center")
    ax.set_yticks(range(len(fits)), list(fits))
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of a settled pass, and its seconds")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(target, dpi=110)


def _draw_memory(tables: list[Path], target: Path) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    for path in tables:
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        seconds, sizes = ([float(row[name]) for row in rows] for name in ("seconds", "gibibytes"))
        ax.plot(seconds, sizes, label=path.stem.removesuffix("-memory"))
    ax.set_xscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel("memory of all processes, GiB")
    ax.set_ylim(0)
    ax.legend(frameon=False)
    figure.savefig(target, dpi=110)


def main(arguments: list[str] | None = None) -> None:
    """Draw both pictures.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.figure", description=__doc__)
    parser.add_argument("folder", nargs="?", default="docs/results/scale", help="folder of the tables")
    folder = Path(parser.parse_args(arguments).folder)
    memory = sorted(folder.glob("*-memory.csv"))
    passes = sorted(set(folder.glob("*.csv")) - set(memory))
    if not passes:
        parser.error(f"{folder} holds no tables of `python -m benchmarks.scale`")
    _draw_passes(passes, folder / "passes.png")
    _draw_memory(memory, folder / "memory.png")


if __name__ == "__main__":
    main()
