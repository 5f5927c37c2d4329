"""``make fuzz``: damaged stores, models, runs, tables and archives, with a seed, and a report.

Each case changes one file of a copy and uses it: it must be refused by name, or give the clean result.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

from tests.fuzz.judging import Outcome, subjects
from tests.fuzz.targets import TARGETS
from tests.fuzz.watching import outcomes

_VERDICTS = ("refused", "clean", "unseen", "silent", "raw", "memory", "hang", "crash")
_MOST_LINES = 40


def report(counts: Counter[tuple[str, str]], faults: list[Outcome], seed: int, seconds: float) -> str:
    """The table for `docs/results`."""
    total, names = sum(counts.values()), [target.name for target in TARGETS]
    lines = [
        f"# Damaged and hostile inputs, {date.today():%Y-%m-%d}",
        "",
        f"`make fuzz`, seed {seed}: {total:,} cases in {seconds / 60:.0f} minutes, {os.cpu_count()} cores,",
        f"{platform.machine()}. Each one damages a file of a copy (flipped, overwritten and zeroed bytes, cuts,",
        "extensions, edits of JSON, files that are removed, swapped or copied over each other) and uses it. It is",
        "*refused* by an error of one line that names it, or gives the *clean* result. *Unseen* is another result",
        "where the format has no checksum ([docs/data.md](../data.md)); everything else is a fault.",
        "",
        f"| what | {' | '.join(_VERDICTS)} |",
        f"|---|{'---:|' * len(_VERDICTS)}",
    ]
    lines += [f"| {name} | {' | '.join(f'{counts[name, verdict]:,}' for verdict in _VERDICTS)} |" for name in names]
    if faults:
        lines += ["", "Faults:", ""]
        lines += [
            f"- case {f.case}, {f.target}, {f.verdict}: {f.damage}: {f.words[:300]}" for f in faults[:_MOST_LINES]
        ]
    return "\n".join([*lines, ""])


def main() -> int:
    """Command line; 1 where there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--first", type=int, default=0, metavar="CASE", help="case to begin with")
    parser.add_argument("--most", type=int, metavar="N", help="cases, at most; with --first, to see one again")
    parser.add_argument("--report", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    counts, faults, begin = Counter[tuple[str, str]](), list[Outcome](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vmfa-fuzz-") as folder:
        subjects(Path(folder), TARGETS)
        judged = outcomes(Path(folder), TARGETS, options.seed, options.seconds, options.most, options.first)
        for outcome in judged:
            counts[outcome.target, outcome.verdict] += 1
            if outcome.is_fault:
                faults.append(outcome)
                print(
                    f"case {outcome.case}, {outcome.target}, {outcome.verdict}: {outcome.damage}: {outcome.words[:300]}"
                )
    text = report(counts, faults, options.seed, time.monotonic() - begin)
    print(text)
    if options.report is not None:
        options.report.write_text(text, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
