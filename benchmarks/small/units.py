"""Units of the data: how densities, labels and passes change if the same rows are given in other units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.images import photograph_patches
from benchmarks.small.report import options_of, write_table
from vmfa_dask import fit_local

Case = tuple[str, np.ndarray, np.ndarray, dict[str, Any]]


def cases() -> Iterator[Case]:
    """List the comparisons.

    Yields
    ------
    name : str
        A cell of the table.
    rows : (N, D) array
        The rows.
    scales : (D,) array
        Constants by which the features are multiplied.
    settings : dict
        Keywords of `fit_local`.
    """
    from sklearn.datasets import load_breast_cancer, load_digits

    rng = np.random.default_rng(0)
    centers = rng.normal(0, 4, (6, 8))
    blobs = centers[rng.integers(0, 6, 4_000)] + rng.normal(size=(4_000, 8))
    few = {"n_components": 6, "n_factors": 2}
    for scale in (1 / 8192, 0.2, 1000.0):
        yield f"6 groups, times {scale:g}", blobs, np.full(8, scale), few
    yield "6 groups, each feature by another constant", blobs, np.geomspace(1e-6, 1e6, 8), few
    table = load_breast_cancer().data
    yield "breast_cancer, in standard deviations", table, 1 / table.std(axis=0), {"n_components": 4, "n_factors": 3}
    digits = load_digits().data
    yield "digits, 0..16 to 0..1", digits, np.full(64, 1 / 16), {"n_components": 20}
    patches = photograph_patches(20_000, 8).mean(axis=3).round().reshape(-1, 64)
    yield "patches, 0..255 to 0..1, C=50", patches, np.full(64, 1 / 255), {"n_components": 50}
    yield "patches, 0..255 to 0..1, C=400", patches, np.full(64, 1 / 255), {"n_components": 400}


def compare(rows: np.ndarray, scales: np.ndarray, **options: Any) -> tuple[float, float, int, int]:
    """Fit rows before and after their features are multiplied by constants.

    Parameters
    ----------
    rows : (N, D) array
        The rows.
    scales : (D,) array
        The constants.
    **options
        Keywords of `fit_local`.

    Returns
    -------
    difference : float
        Change of the mean log-density beyond −Σ ln s, in nats.
    equal : float
        Share of rows with equal labels.
    before, after : int
        Numbers of passes of the two fits.
    """
    plain, scaled = rows.astype(np.float32), (rows * scales).astype(np.float32)
    one, other = fit_local(plain, **options), fit_local(scaled, **options)
    difference = other.model.score(scaled) + float(np.log(scales).sum()) - one.model.score(plain)
    equal = float(np.mean(one.model.predict(plain) == other.model.predict(scaled)))
    return difference, equal, len(one.history), len(other.history)


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison from the command line."""
    options = options_of("units", 1, arguments)
    rows = []
    for name, data, scales, settings in cases():
        cells = []
        for preset in ("default", "paper"):
            difference, equal, before, after = compare(data, scales, preset=preset, **settings)
            cells += [f"{difference:+.4f}", f"{equal:.1%}", f"{before} / {after}"]
        rows.append([name, *cells])
        print("  ".join(rows[-1]), flush=True)
    header = ["rows", "defaults: score", "equal labels", "passes", 'preset="paper": score', "equal labels", "passes"]
    notes = (
        "`python -m benchmarks.small.units`: fits of float32 rows before and after features are multiplied by "
        "constants. Score: change of the mean log-density beyond −Σ ln s, in nats per row."
    )
    write_table(options.output, "units", "Units of the data", header, rows, notes)


if __name__ == "__main__":
    main()
