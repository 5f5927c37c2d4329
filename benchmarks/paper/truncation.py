"""Optimal kept components, found by evaluating all, against those of guided search (paper, ablation on K_n^opt)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality


def rows(e: Experiment) -> Iterator[Row]:
    """Both searches for C' = 3, 5, 7, and exact EM."""
    yield from e.fit("em-MFA", search="exhaustive")
    for truncation in (3, 5, 7):
        yield from e.fit(f"optimal, C'={truncation}", search="exhaustive", truncation=truncation)
        for neighborhood in (5, 15, 30):
            yield from e.fit(f"C'={truncation}, G={neighborhood}", truncation=truncation, neighborhood=neighborhood)


def main(arguments: list[str] | None = None) -> None:
    """Write truncation.csv and truncation.png."""
    with experiment("truncation", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "em-MFA", "Optimal and guided truncation")


if __name__ == "__main__":
    main(sys.argv[1:])
