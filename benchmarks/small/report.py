"""Command line and Markdown tables of these comparisons."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe


def options_of(name: str, repetitions: int, arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line of a comparison.

    Parameters
    ----------
    name : str
        Its module.
    repetitions : int
        Default number of seeds or splits.
    arguments : list of str, optional
        Of the command line; by default those of this process.

    Returns
    -------
    Namespace
        With `repetitions` and `output`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.small.{name}")
    parser.add_argument("--repetitions", type=int, default=repetitions, help="number of seeds or splits")
    parser.add_argument("--output", default="benchmark-output", help="folder of the table")
    return parser.parse_args(arguments)


def write_table(
    output: str, name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: str
) -> None:
    """Print a table and write it to ``output/name.md``.

    Parameters
    ----------
    output : str
        Folder, created if necessary.
    name : str
        Name of the file without its ending.
    title : str
        Heading.
    header : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells.
    notes : str
        Printed above the table.
    """
    lines = [f"# {title}", "", notes, "", f"Machine: {describe()}.", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
