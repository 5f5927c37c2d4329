"""``make chaos``: random kills of workers, drivers and schedulers, with a seed, and a report.

Nothing here is timed; every wait has a bound, and a hang ends as an error.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from tests.chaos import scenes
from tests.chaos.driver import VARIANT, VARIANTS, digest, make_store, options
from vmfa_dask import fit_local


def run(variant: str, seed: int, worker_fits: int, driver_kills: int, scheduler_kills: int) -> list[scenes.Outcome]:
    """All scenes with one kind of run, one after the other."""
    os.environ[VARIANT] = variant
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="vmfa-chaos-") as temporary:
        folder = Path(temporary)
        store = make_store(folder / "rows.zarr")
        expected = digest(fit_local(store, **options()).model)
        outcomes = []
        for scene in (
            lambda: scenes.kill_workers(store, expected, rng, worker_fits, 5),
            lambda: scenes.kill_drivers(store, expected, rng, folder, driver_kills, 5),
            lambda: scenes.kill_schedulers(store, expected, rng, folder, scheduler_kills),
            lambda: scenes.kill_everything(store, expected, folder),
        ):
            begin = time.monotonic()
            outcome = scene()
            outcome.name += f", {variant} rows"
            print(f"{_row(outcome)} {time.monotonic() - begin:.0f} s", flush=True)
            for note in outcome.notes:
                print(f"  {note}")
            outcomes.append(outcome)
    return outcomes


def _row(outcome: scenes.Outcome) -> str:
    return f"| {outcome.name} | {outcome.kills} | {outcome.fits} | {outcome.same} |"


def report(outcomes: list[scenes.Outcome], seed: int) -> str:
    """The table for `docs/results`."""
    lines = [
        f"# Kills, {date.today():%Y-%m-%d}",
        "",
        f"`make chaos` with seed {seed} on {os.cpu_count()} cores, {platform.machine()}: SIGKILL, or for",
        "workers and drivers SIGTERM, at random moments of a fit of 30,000 × 24 rows (C = 40, H = 3, fifteen passes,",
        "twelve groups), with rows as they are, and re-ordered along cells of seeds. A fit counts as equal when every",
        "parameter has the bytes of an undisturbed serial run. Every wait was bounded; none ran out.",
        "",
        "| scene | kills | fits that ended | equal to the undisturbed one |",
        "|---|---|---|---|",
        *(_row(outcome) for outcome in outcomes),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker-fits", type=int, default=10, help="fits with five killed workers each")
    parser.add_argument("--driver-kills", type=int, default=20)
    parser.add_argument("--scheduler-kills", type=int, default=10)
    parser.add_argument("--report", help="Markdown file to write")
    asked = parser.parse_args()
    # Every kill fills pages with tracebacks of lost connections.
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    numbers = asked.seed, asked.worker_fits, asked.driver_kills, asked.scheduler_kills
    outcomes = [outcome for variant in VARIANTS for outcome in run(variant, *numbers)]
    if asked.report:
        Path(asked.report).write_text(report(outcomes, asked.seed), encoding="utf-8")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
