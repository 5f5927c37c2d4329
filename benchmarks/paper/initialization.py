"""Ways to seed (paper, ablation on initialisation)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality


def rows(e: Experiment) -> Iterator[Row]:
    """Each way to seed with the paper's setting of the search; components that lose their rows are split, as there."""
    for method in ("afkmc2", "uniform", "k-means++", "k-means+fa", "noise"):
        yield from e.fit(method, init_params=method, empty_components="split")


def main(arguments: list[str] | None = None) -> None:
    """Write initialization.csv and initialization.png."""
    with experiment("initialization", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "afkmc2", "Initialisation", x="seconds")


if __name__ == "__main__":
    main(sys.argv[1:])
