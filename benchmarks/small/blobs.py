"""Blobs: are all groups of rows found? Adjusted Rand index with defaults, against scikit-learn with the same seed.

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
# A smaller difference of indices means a few rows in thousands.
_EQUAL = 1e-3


@dataclass(frozen=True)
class Found:
    """One comparison.

    Parameters
    ----------
    ours, theirs : float
        Adjusted Rand indices.
    our_score, their_score : float
        Mean log-densities of the training rows, in nats.
    our_seconds, their_seconds : float
        Durations of the fits.
    """

    ours: float
    theirs: float
    our_score: float
    their_score: float
    our_seconds: float
    their_seconds: float


def blobs(n_groups: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of well separated groups.

    Parameters
    ----------
    n_groups, n_features : int
        Number of groups, and D.
    seed : int
        Random seed.

    Returns
    -------
    rows : (8000, D) float64 array
        The rows.
    groups : (8000,) int array
        The group of each row.
    """
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 10, (n_groups, n_features))
    groups = rng.integers(0, n_groups, N_ROWS)
    return centers[groups] + rng.normal(size=(N_ROWS, n_features)), groups


def compare(n_groups: int, n_features: int, seed: int) -> Found:
    """Fit both packages to the same rows with the same seed.

    Parameters
    ----------
    n_groups, n_features, seed : int
        As in `blobs`.

    Returns
    -------
    Found
        Indices, scores and seconds.
    """
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
    """Format a row of the table.

    Parameters
    ----------
    n_groups, n_features : int
        As in `blobs`.
    found : list of Found
        One per seed.

    Returns
    -------
    list of str
        The cells.
    """
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
    """Run the comparison from the command line."""
    options = options_of("blobs", 20, arguments)
    warnings.simplefilter("ignore")  # scikit-learn warns when it stops at its limit of iterations
    rows = []
    for n_groups, n_features in CASES:
        compare(n_groups, n_features, 0)  # loads the kernels before anything is timed
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
