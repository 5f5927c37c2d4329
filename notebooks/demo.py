"""From real photographs to a density of their patches, on a Dask cluster, in one script: `make demo`.

Photographs that come with scikit-image are cut into overlapping patches and written, shuffled, to a Zarr store. A
mixture of factor analyzers is trained on them by `fit_distributed` and compared, on strips of the photographs that
training never saw, with one Gaussian and with a diagonal mixture of as many parameters. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from demo_pictures import draw_components, draw_free_energy
from distributed import Client, LocalCluster
from numpy.typing import NDArray
from PIL import Image

from vmfa_dask import Fit, IterationRecord, MixtureModel, fit_distributed
from vmfa_dask.runtime.threads import available_cores

Pixels = NDArray[np.uint8]

# Photographs in the scikit-image wheel, all CC0 or public domain. The right picture of the motorcycle is left out: it
# shows the scene of the left one, so a strip held out in one would be trained on in the other.
PHOTOGRAPHS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "moon.png",
    "motorcycle_left.png",
    "rocket.jpg",
)
PATCH, STRIDE = 12, 2
N_FACTORS = 5
CHUNK_ROWS = 4096
MEMORY_LIMIT = "2GiB"
SEED = 0
# Part of the free energy that a pass has to gain. With 1e-4, the paper's, training takes four times as many passes and
# gains another 2 %: a demo may stop earlier.
TOLERANCE = 1e-3

# Smallest variance of any direction, in squared grey levels. Pixels are whole numbers: in saturated or blurred areas a
# variance could shrink to nothing and the density grow without bound, so that the comparison would be decided by
# constant patches. With at least 1.0 a density sums to 1 over the grid of whole numbers (the error is 2·exp(−2π²), or
# 5e-9, per pixel): its negative logarithm is then the length of a code for the pixels, and models can be compared.
SMALLEST_VARIANCE = 1.0


@dataclass(frozen=True)
class Result:
    """One line of the final table; `nll` is the mean negative log-density per held-out patch, in nats."""

    name: str
    nll: float
    n_parameters: int
    seconds: float
    n_passes: int | None


def load_photographs() -> dict[str, Pixels]:
    """Grey photographs (height, width) by name, read from the data folder of the installed scikit-image."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise SystemExit("scikit-image is not installed: pip install -e '.[demo]'")
    folder = Path(spec.origin).parent / "data"
    found = [folder / name for name in PHOTOGRAPHS if (folder / name).is_file()]
    if not found:
        raise SystemExit(
            f"none of the photographs {', '.join(PHOTOGRAPHS)} is in {folder}: "
            "this scikit-image comes without them; the demo downloads nothing"
        )
    return {path.stem: np.asarray(Image.open(path).convert("L")) for path in found}


def patches_of(picture: Pixels) -> Pixels:
    """Overlapping patches (n, 12, 12) of one picture."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (PATCH, PATCH))
    return windows[::STRIDE, ::STRIDE].reshape(-1, PATCH, PATCH)


def split_photographs(photographs: dict[str, Pixels]) -> tuple[Pixels, Pixels]:
    """Patches to train on and held-out ones.

    An eighth of each photograph, a strip across it, is held out whole: overlapping patches drawn at random would share
    nearly all of their pixels with patches that are trained on.
    """
    train, held_out = [], []
    for picture in photographs.values():
        top = len(picture) * 5 // 8
        bottom = top + len(picture) // 8
        train += [patches_of(picture[:top]), patches_of(picture[bottom:])]
        held_out.append(patches_of(picture[top:bottom]))
    return np.concatenate(train), np.concatenate(held_out)


def write_rows(patches: Pixels, n_rows: int, path: Path) -> int:
    """Write `n_rows` patches to a Zarr store, drawn in shuffled order: every shard holds rows of all photographs."""
    order = np.random.default_rng(SEED).permutation(len(patches))[:n_rows]
    store = zarr.create_array(
        path,
        shape=(len(order), PATCH, PATCH),
        chunks=(CHUNK_ROWS, PATCH, PATCH),
        dtype=np.uint8,
        dimension_names=("patch", "height", "width"),
        overwrite=True,
    )
    for start in range(0, len(order), CHUNK_ROWS):
        store[start : start + CHUNK_ROWS] = patches[order[start : start + CHUNK_ROWS]]
    return len(order)


def show(record: IterationRecord) -> None:
    """One line per pass over the rows, while the fit runs."""
    print(record.line(), flush=True)


def train(name: str, path: Path, held_out: Pixels, client: Client, **numbers: Any) -> tuple[Fit, Result]:
    """Train one mixture on the cluster and score it, exactly, on the held-out patches."""
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
    """Components of a diagonal mixture with about `n_parameters`: each has a weight, D means and D variances."""
    return round((n_parameters + 1) / (1 + 2 * n_features))


def fit_gaussian(path: Path, held_out: Pixels) -> Result:
    """One Gaussian with a full covariance, by its closed form, in float64."""
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
    """The comparison as text. Bits per pixel are the same numbers as those in nats, in the units of image coders."""
    lines = [f"{'model':28s} nats/patch bits/pixel parameters seconds passes"]
    for result in results:
        bits, passes = result.nll / (PATCH * PATCH * math.log(2)), result.n_passes or "-"
        lines.append(
            f"{result.name:28s} {result.nll:10.2f} {bits:10.3f} {result.n_parameters:10,d} {result.seconds:7.1f} "
            f"{passes:>6}"
        )
    return "\n".join(lines)


def check_saved(fit: Fit, path: Path, rows: Pixels) -> None:
    """Save the model, load it again, and compare the scores."""
    fit.model.save(path, overwrite=True)
    saved, loaded = fit.model.score(rows), MixtureModel.load(path).score(rows)
    if loaded != saved:
        raise SystemExit(f"the model in {path} scores {loaded}, the one that was saved {saved}")
    print(f"model saved to {path}; loaded again it gives the same score")


def prepare(path: Path, n_rows: int) -> Pixels:
    """Write the rows to train on to a Zarr store; returns the held-out patches."""
    photographs = load_photographs()
    patches, held_out = split_photographs(photographs)
    n_rows = write_rows(patches, n_rows, path)
    print(
        f"{len(photographs)} photographs: {n_rows:,} patches of {PATCH} x {PATCH} pixels to train on, in {path}; "
        f"{len(held_out):,} held out"
    )
    return held_out


def run(output: Path, rows_folder: Path, n_rows: int, n_components: int) -> None:
    """The whole demo; pictures and model go to `output`, the rows to `rows_folder`."""
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
    for picture in (draw_components(fit.model, output), draw_free_energy(fit.history, output)):
        print(f"picture: {picture}")


def main() -> None:
    """Command line."""
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
