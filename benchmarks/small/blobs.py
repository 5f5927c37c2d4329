"""Blobs: are all groups of rows found? Adjusted Rand index with defaults, beside scikit-learn's of the same seed.

Centres from N(0, 10²) in each feature, unit noise, 8,000 rows, H = 2 (1 in two dimensions).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np

from benchmarks.small.report import options_of, write_table
from vmfa_dask import fit_local

CASES = ((8, 12), (20, 12), (50, 12), (8, 64), (20, 64), (50, 64), (8, 2))
N_ROWS = 8_000
# Indices that differ by less differ in a few rows of thousands.
_EQUAL = 1e-3


@dataclass(frozen=True)
class Found:
    """Adjusted Rand index and mean log-density of both, and the seconds they took."""

    ours: float
    theirs: float
    our_score: float
    their_score: float
    our_seconds: float
    their_seconds: float


def blobs(n_groups: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (8000, D) float64 and the group of each."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 10, (n_groups, n_features))
    groups = rng.integers(0, n_groups, N_ROWS)
    return centers[groups] + rng.normal(size=(N_ROWS, n_features)), groups


def compare(n_groups: int, n_features: int, seed: int) -> Found:
    """Both on the same rows, with the same seed."""
    from sklearn.metrics import adjusted_rand_score
    from sklearn.mixture import GaussianMixture

    rows, groups = blobs(n_groups, n_features, seed)
    begin = time.perf_counter()
    ours = fit_local(rows, n_components=n_groups, n_factors=min(2, n_features - 1), random_state=seed).model
    middle = time.perf_counter()
    theirs = GaussianMixture(n_groups, random_state=seed).fit(rows)
    end = time.perf_counter()
    return Found(
        adjusted_rand_score(groups, ours.predict(rows)),
        adjusted_rand_score(groups, theirs.predict(rows)),
        ours.score(rows),
        float(theirs.score(rows)),
        middle - begin,
        end - middle,
    )


def line(n_groups: int, n_features: int, found: list[Found]) -> list[str]:
    """One row of the table."""
    lower = [f for f in found if f.ours < f.theirs - _EQUAL]
    denser = sum(f.our_score > f.their_score - 1e-3 for f in lower)
    return [
        f"{n_groups} in {n_features}",
        f"{np.mean([f.ours for f in found]):.4f} ({min(f.ours for f in found):.4f})",
        f"{np.mean([f.theirs for f in found]):.4f} ({min(f.theirs for f in found):.4f})",
        f"{sum(f.ours >= 0.99 for f in found)} of {len(found)}",
        f"{sum(f.theirs >= 0.99 for f in found)} of {len(found)}",
        f"{len(lower)}" + (f" ({denser} at an equal or higher density)" if lower else ""),
        f"{np.median([f.our_seconds for f in found]):.2f} / {np.median([f.their_seconds for f in found]):.2f}",
    ]


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    options = options_of("blobs", 20, arguments)
    warnings.simplefilter("ignore")  # scikit-learn warns where it stops at its number of iterations
    rows = []
    for n_groups, n_features in CASES:
        compare(n_groups, n_features, 0)  # kernels ready before the first clock
        found = [compare(n_groups, n_features, seed) for seed in range(options.repetitions)]
        rows.append(line(n_groups, n_features, found))
        print("  ".join(rows[-1]), flush=True)
    header = (
        "groups in dimensions",
        "ours, mean (lowest)",
        'scikit-learn "full"',
        "ours >= 0.99",
        "scikit-learn >= 0.99",
        f"ours lower by more than {_EQUAL:g}",
        "seconds, ours / scikit-learn",
    )
    notes = (
        f"`python -m benchmarks.small.blobs`: adjusted Rand index over {options.repetitions} seeds, defaults of both. "
        "In two dimensions groups overlap, and the mixture of the largest density need not have the largest index."
    )
    write_table(options.output, "blobs", "Blobs", header, rows, notes)


if __name__ == "__main__":
    main()
