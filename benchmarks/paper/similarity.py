"""Neighbours by estimated KL divergence and by joints, for MFA and isotropic mixtures (paper, control experiments)."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

from benchmarks.paper.common import Experiment, Row, experiment, scatter_quality


def rows(e: Experiment) -> Iterator[Row]:
    """Both similarities and both types, for some sizes of neighbourhoods."""
    for kind, neighborhood in itertools.product(("mfa", "isotropic"), (5, 15, 30)):
        for similarity in ("kl", "joint"):
            label = f"{kind}, G={neighborhood}, {similarity}"
            yield from e.fit(label, covariance_type=kind, neighborhood=neighborhood, similarity=similarity)


def main(arguments: list[str] | None = None) -> None:
    """Write similarity.csv and similarity.png."""
    with experiment("similarity", arguments) as e:
        scatter_quality(e.write(rows(e)), e, "mfa, G=15, kl", "Similarity of components")


if __name__ == "__main__":
    main(sys.argv[1:])
