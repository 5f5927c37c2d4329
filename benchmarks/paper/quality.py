"""Quality against efficiency (paper): nine settings of C' and G, exact EM, k-means + FA, and the seeds alone."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.others import kmeans_fa
from benchmarks.paper.common import Experiment, Row, experiment, say, scatter_quality


def rows(e: Experiment) -> Iterator[Row]:
    """One row per setting and seed."""
    yield from e.fit("em-MFA", search="exhaustive")
    for truncation, neighborhood in itertools.product((3, 5, 7), (5, 15, 30)):
        yield from e.fit(f"C'={truncation}, G={neighborhood}", truncation=truncation, neighborhood=neighborhood)
    yield from e.fit("seeds alone", max_iter=0)
    yield from _kmeans_fa(e)


def _kmeans_fa(e: Experiment) -> Iterator[Row]:
    flat, test = (part.reshape(len(part), -1).astype(np.float32) for part in (e.train, e.test))
    for seed in e.seeds:
        begin = time.perf_counter()
        nll, iterations = kmeans_fa(flat, test, e.n_components, 5, seed)
        row = {"setting": "k-means+FA", "seed": seed, "C": e.n_components, "N": len(flat), "nll_test": nll}
        row |= {"free_energy": float("nan"), "warmup": 0, "iterations": iterations}
        joints = iterations * len(flat) * e.n_components
        row |= {"joints": joints, "joints_per_row": joints / len(flat)}
        row |= {"seconds": time.perf_counter() - begin, "components": e.n_components}
        say(row)
        yield row


def main(arguments: list[str] | None = None) -> None:
    """Write quality.csv and quality.png."""
    with experiment("quality", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "em-MFA", "Quality against efficiency", x="seconds")


if __name__ == "__main__":
    main(sys.argv[1:])
