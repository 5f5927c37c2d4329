"""What these comparisons share: arguments, and tables as Markdown that are printed and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe


def options_of(name: str, repetitions: int, arguments: list[str] | None) -> argparse.Namespace:
    """The command line of one comparison."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.small.{name}")
    parser.add_argument("--repetitions", type=int, default=repetitions, help="seeds or splits")
    parser.add_argument("--output", default="benchmark-output", help="folder of the table")
    return parser.parse_args(arguments)


def write_table(
    output: str, name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: str
) -> None:
    """Print a table and write it to ``output/name.md``."""
    lines = [f"# {title}", "", notes, "", f"Machine: {describe()}.", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
