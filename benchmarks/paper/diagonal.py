"""Diagonal covariances against factor analyzers with the same number of parameters (paper, appendix on comparisons)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality


def rows(e: Experiment) -> Iterator[Row]:
    """An MFA has (H + 2)·D parameters per component, a diagonal mixture 2·D: it gets (H + 2)/2 times as many."""
    small = max(2, e.n_components * 2 // 7)
    yield from e.fit("mfa", n_components=small)
    yield from e.fit("diagonal", n_components=small * 7 // 2, covariance_type="diagonal")
    yield from e.fit("isotropic", n_components=small * 7 // 2, covariance_type="isotropic")


def main(arguments: list[str] | None = None) -> None:
    """Write diagonal.csv and diagonal.png."""
    with experiment("diagonal", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "mfa", "Covariances at equal numbers of parameters", x="seconds")


if __name__ == "__main__":
    main(sys.argv[1:])
