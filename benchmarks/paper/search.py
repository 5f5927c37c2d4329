"""Searches that are cheaper than the paper's: neighbourhoods by rank, rows that rest, and both."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality

SEARCHES = {
    "paper (15, every pass)": {},
    "15, 5, 5": {"neighborhood": (15, 5, 5)},
    "rest 3": {"search_every": 3},
    "rest 5": {"search_every": 5},
    "15, 5, 5 and rest 3": {"neighborhood": (15, 5, 5), "search_every": 3},
    "15, 5, 5 and rest 5": {"neighborhood": (15, 5, 5), "search_every": 5},
}


def rows(e: Experiment) -> Iterator[Row]:
    """Each search over all seeds."""
    for name, options in SEARCHES.items():
        yield from e.fit(name, **options)


def main(arguments: list[str] | None = None) -> None:
    """Write search.csv and search.png."""
    with experiment("search", arguments, seeds=5) as e:
        scatter_quality(e.write(rows(e)), e, "paper (15, every pass)", "Cheaper searches")


if __name__ == "__main__":
    main(sys.argv[1:])
