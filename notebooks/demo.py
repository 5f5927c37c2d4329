"""From real photographs to a density of their patches, on a Dask cluster, in one script: `make demo`.

Photographs that come with scikit-image are cut into overlapping patches and written, shuffled, to a Zarr store. A
mixture of factor analyzers is trained on them by `fit_distributed`. On strips of the photographs that were held out it
is compared with one Gaussian and with a diagonal mixture of as many parameters. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from demo_patches import CHUNK_ROWS, PATCH, SEED, Pixels, load_photographs, split_photographs, write_rows
from distributed import Client, LocalCluster

from vmfa_dask import Fit, IterationRecord, MixtureModel, fit_distributed, plot
from vmfa_dask.runtime.threads import available_cores

N_FACTORS = 5
MEMORY_LIMIT = "2GiB"
# Relative gain of the free energy below which training ends. With the paper's 1e-4 it takes four times as many passes
# and gains another 2 %: a demo may stop earlier.
TOLERANCE = 1e-3

# Smallest variance of any direction, in squared grey levels. Pixels are whole numbers: in saturated or blurred areas a
# variance could shrink to nothing and the density grow without bound, so that the comparison would be decided by
# constant patches. With at least 1.0 a density sums to 1 over the grid of whole numbers (the error is 2·exp(−2π²), or
# 5e-9, per pixel): its negative logarithm is then the length of a code for the pixels, and models can be compared.
SMALLEST_VARIANCE = 1.0


@dataclass(frozen=True)
class Result:
    """One line of the final table.

    Parameters
    ----------
    name : str
        The model.
    nll : float
        Mean negative log-density per held-out patch, in nats.
    n_parameters : int
        Number of free parameters.
    seconds : float
        Duration of the training.
    n_passes : int or None
        Passes over the rows; None for the closed form.
    """

    name: str
    nll: float
    n_parameters: int
    seconds: float
    n_passes: int | None


def show(record: IterationRecord) -> None:
    """Print a line per pass while the fit runs.

    Parameters
    ----------
    record : IterationRecord
        The record of the pass.
    """
    print(record.line(), flush=True)


def train(name: str, path: Path, held_out: Pixels, client: Client, **numbers: Any) -> tuple[Fit, Result]:
    """Train a mixture on the cluster and score the held-out patches.

    Parameters
    ----------
    name : str
        The model, for the table.
    path : path
        The store of the training rows.
    held_out : (n, 12, 12) uint8 array
        Held-out patches.
    client : distributed.Client
        The cluster.
    **numbers
        Keywords of `fit_distributed`, with `n_components` and `n_factors`.

    Returns
    -------
    fit : Fit
        The finished fit.
    result : Result
        Its line of the table.
    """
    print(f"\n{name}: C={numbers['n_components']}, H={numbers['n_factors']}", flush=True)
    begin = time.perf_counter()
    fit = fit_distributed(
        str(path),
        client=client,
        standardize=False,  # all features are grey levels: the numbers below are in their units
        tol=TOLERANCE,
        reg_covar=SMALLEST_VARIANCE,
        random_state=SEED,
        progress=show,
        **numbers,
    )
    seconds = time.perf_counter() - begin
    return fit, Result(name, -fit.model.score(held_out), fit.model.n_parameters, seconds, len(fit.history))


def components_for(n_parameters: int, n_features: int) -> int:
    """Choose the number of components of a diagonal mixture by its number of parameters.

    Parameters
    ----------
    n_parameters : int
        About as many as this; a component has a weight, D means and D variances.
    n_features : int
        D.

    Returns
    -------
    int
        Number of components.
    """
    return round((n_parameters + 1) / (1 + 2 * n_features))


def fit_gaussian(path: Path, held_out: Pixels) -> Result:
    """Fit one Gaussian with a full covariance in closed form.

    Parameters
    ----------
    path : path
        The store of the training rows.
    held_out : (n, 12, 12) uint8 array
        Held-out patches.

    Returns
    -------
    Result
        Its line of the table.
    """
    begin = time.perf_counter()
    rows, d = zarr.open_array(path, mode="r"), PATCH * PATCH
    count, total, squares = rows.shape[0], np.zeros(d), np.zeros((d, d))
    for start in range(0, count, 16 * CHUNK_ROWS):
        block = np.asarray(rows[start : start + 16 * CHUNK_ROWS]).reshape(-1, d) - 128.0
        total += block.sum(axis=0)
        squares += block.T @ block
    mean = total / count
    variances, axes = np.linalg.eigh(squares / count - np.outer(mean, mean))
    variances = np.maximum(variances, SMALLEST_VARIANCE)
    seconds = time.perf_counter() - begin
    projected = (held_out.reshape(-1, d) - 128.0 - mean) @ axes
    nll = 0.5 * (d * math.log(2 * math.pi) + np.log(variances).sum() + (projected**2 / variances).sum(axis=1).mean())
    return Result("one full Gaussian", float(nll), d + d * (d + 1) // 2, seconds, None)


def table(results: list[Result]) -> str:
    """Format the comparison; bits per pixel are the same numbers as nats per patch, in the unit of image coders.

    Parameters
    ----------
    results : list of Result
        One per model.

    Returns
    -------
    str
        A table with a header.
    """
    lines = [f"{'model':28s} nats/patch bits/pixel parameters seconds passes"]
    for result in results:
        bits, passes = result.nll / (PATCH * PATCH * math.log(2)), result.n_passes or "-"
        lines.append(
            f"{result.name:28s} {result.nll:10.2f} {bits:10.3f} {result.n_parameters:10,d} {result.seconds:7.1f} "
            f"{passes:>6}"
        )
    return "\n".join(lines)


def check_saved(fit: Fit, path: Path, rows: Pixels) -> None:
    """Save the model, load it again, and compare the scores.

    Parameters
    ----------
    fit : Fit
        The finished fit.
    path : path
        The saved model, which is replaced.
    rows : (n, 12, 12) uint8 array
        Rows to score.

    Raises
    ------
    SystemExit
        If the scores differ.
    """
    fit.model.save(path, overwrite=True)
    saved, loaded = fit.model.score(rows), MixtureModel.load(path).score(rows)
    if loaded != saved:
        raise SystemExit(f"the model in {path} scores {loaded}, the one that was saved {saved}")
    print(f"model saved to {path}; loaded again it gives the same score")


def prepare(path: Path, n_rows: int) -> Pixels:
    """Write the training rows to a Zarr store.

    Parameters
    ----------
    path : path
        The new store.
    n_rows : int
        Number of rows.

    Returns
    -------
    (n, 12, 12) uint8 array
        The held-out patches.
    """
    photographs = load_photographs()
    patches, held_out = split_photographs(photographs)
    n_rows = write_rows(patches, n_rows, path)
    print(
        f"{len(photographs)} photographs: {n_rows:,} patches of {PATCH} x {PATCH} pixels to train on, in {path}; "
        f"{len(held_out):,} held out"
    )
    return held_out


def run(output: Path, rows_folder: Path, n_rows: int, n_components: int) -> None:
    """Run the whole demo.

    Parameters
    ----------
    output : path
        Folder of the pictures and the model.
    rows_folder : path
        Folder of the training rows.
    n_rows : int
        Number of training rows.
    n_components : int
        C of the mixture of factor analyzers.
    """
    path = rows_folder / "patches.zarr"
    held_out = prepare(path, n_rows)
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=available_cores(),
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=MEMORY_LIMIT,
        ) as cluster,
        Client(cluster) as client,
    ):
        print(f"Dask dashboard: {cluster.dashboard_link}")
        fit, mixture = train(
            "mixture of factor analyzers", path, held_out, client, n_components=n_components, n_factors=N_FACTORS
        )
        same = components_for(mixture.n_parameters, PATCH * PATCH)
        _, diagonal = train("diagonal mixture", path, held_out, client, n_components=same, n_factors=0)
    print("\nNegative log-density of the held-out patches (smaller is better):")
    print(table([mixture, diagonal, fit_gaussian(path, held_out)]), "\n")
    output.mkdir(parents=True, exist_ok=True)
    check_saved(fit, output / "model.zarr", held_out)
    grey_levels = (0, 255)
    for name, picture in (
        ("components", plot.components(fit.model, data_range=grey_levels)),
        ("free_energy", plot.history(fit)),
    ):
        path = output / f"{name}.png"
        picture.savefig(path, dpi=110)
        print(f"picture: {path}")


def main() -> None:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="keep everything here, the store of rows too (default: pictures and model in demo-output, "
        "rows in a temporary folder)",
    )
    parser.add_argument("--components", type=int, default=200, metavar="C", help="mixture components (default: 200)")
    parser.add_argument("--rows", type=int, default=300_000, metavar="N", help="patches to train on (default: 300000)")
    options = parser.parse_args()
    begin = time.perf_counter()
    output = options.output or Path("demo-output")
    with nullcontext(options.output) if options.output else tempfile.TemporaryDirectory(prefix="vmfa-demo-") as folder:
        run(output, Path(folder), options.rows, options.components)
    print(f"done in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
