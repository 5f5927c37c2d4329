"""Tables of scikit-learn: held-out log-density with defaults, against scikit-learn and the paper's settings.

In each of five splits s, the first fifth of ``numpy.random.default_rng(s).permutation(N)`` is held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.small.report import options_of, write_table
from vmfa_dask import fit_local

# Name -> C, H.
TABLES = {"iris": (3, 2), "wine": (3, 3), "breast_cancer": (4, 3), "diabetes": (4, 3), "digits": (20, 5)}


def splits(name: str, n: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Split a table of scikit-learn at random.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    n : int
        Number of splits.

    Yields
    ------
    number : int
        The number of the split.
    train, test : (n, D) float64 array
        Training rows and held-out rows.
    """
    from sklearn import datasets

    rows = getattr(datasets, f"load_{name}")().data.astype(np.float64)
    for number in range(n):
        order = np.random.default_rng(number).permutation(len(rows))
        yield number, rows[order[len(rows) // 5 :]], rows[order[: len(rows) // 5]]


def ours(n_components: int, n_factors: int, **options: Any) -> Callable[[int, np.ndarray, np.ndarray], float]:
    """Make a function that scores this package.

    Parameters
    ----------
    n_components, n_factors : int
        C and H.
    **options
        Further settings.

    Returns
    -------
    callable
        ``score(seed, train, test)``, the mean log-density of the test rows in nats.
    """

    def score(seed: int, train: np.ndarray, test: np.ndarray) -> float:
        fit = fit_local(train, n_components=n_components, n_factors=n_factors, random_state=seed, **options)
        return fit.model.score(test)

    return score


def theirs(n_components: int, covariance_type: str) -> Callable[[int, np.ndarray, np.ndarray], float]:
    """Make a function that scores scikit-learn's mixture; see `ours`."""
    from sklearn.mixture import GaussianMixture

    def score(seed: int, train: np.ndarray, test: np.ndarray) -> float:
        model = GaussianMixture(n_components, covariance_type=covariance_type, random_state=seed)
        return float(model.fit(train).score(test))

    return score


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison from the command line."""
    options = options_of("tables", 5, arguments)
    warnings.simplefilter("ignore")  # scikit-learn warns when it stops at its limit of iterations
    rows = []
    for name, (c, h) in TABLES.items():
        ways = {
            "defaults": ours(c, h),
            'preset="paper"': ours(c, h, preset="paper"),
            "the same, standardize=True": ours(c, h, preset="paper", standardize=True),
            'scikit-learn "diag"': theirs(c, "diag"),
            'scikit-learn "full"': theirs(c, "full"),
        }
        cells = []
        for way in ways.values():
            found = np.array([way(*split) for split in splits(name, options.repetitions)])
            cells.append(f"{found.mean():.2f} ± {found.std(ddof=1) / len(found) ** 0.5:.2f}")
        rows.append([f"{name} (C={c}, H={h})", *cells])
        print("  ".join(rows[-1]), flush=True)
    header = ("table", *ways)
    notes = (
        "`python -m benchmarks.small.tables`: held-out log-density per row in nats, mean and standard error over "
        f"{options.repetitions} splits; the larger the better."
    )
    write_table(options.output, "tables", "Tables of scikit-learn", header, rows, notes)


if __name__ == "__main__":
    main()
