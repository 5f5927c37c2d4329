"""A common offset of all rows, which must not affect the fit: it is subtracted before rows are narrowed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality

OFFSETS = (0.0, 1e3, 1e6)


def rows(e: Experiment) -> Iterator[Row]:
    """The same rows as float64, at growing distances from the origin."""
    for offset in OFFSETS:
        moved = replace(e, train=e.train.astype(np.float64) + offset, test=e.test.astype(np.float64) + offset)
        yield from moved.fit(f"offset {offset:g}")


def main(arguments: list[str] | None = None) -> None:
    """Write offset.csv and offset.png."""
    with experiment("offset", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "offset 0", "Offset of the rows")


if __name__ == "__main__":
    main(sys.argv[1:])
