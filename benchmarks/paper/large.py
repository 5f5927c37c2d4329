"""Joints until convergence, seconds and held-out NLL at very many components (paper, section on large-scale data).

``python -m benchmarks.paper.large [--images FOLDER]``: patches of 8 x 8 x 3 bytes, and images with mirrored and shifted
copies, with the paper's settings for such sizes: uniform seeds, and tolerances of 1e-3 and 1e-4.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from matplotlib.figure import Figure

from benchmarks.machine import describe
from benchmarks.scale import rows
from vmfa_dask import fit_local

_SETTINGS = {"n_factors": 5, "init_params": "uniform", "warmup_tol": 1e-3, "tol": 1e-4, "standardize": False}
_HELD_OUT = 10_000


def _fit(path: str, test: np.ndarray, kind: str, n_components: int) -> dict[str, Any]:
    train = zarr.open_array(path, mode="r")[:]
    begin = time.perf_counter()
    fit = fit_local(train, n_components=n_components, **_SETTINGS)
    seconds = time.perf_counter() - begin
    return {
        "rows": kind,
        "N": len(train),
        "C": n_components,
        "passes": len(fit.history),
        "joints_per_row": round(sum(record.joints_per_row for record in fit.history), 1),
        "joints_per_row_and_pass": round(float(np.mean([record.joints_per_row for record in fit.history[:-1]])), 2),
        "seconds": round(seconds, 1),
        "components": fit.model.n_components,
        "NLL_test": round(-float(np.mean(fit.model.score_samples(test))), 3),
    }


def _draw(table: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for ax, (name, label) in zip(
        figure.subplots(1, 3),
        (("joints_per_row", "joints per row until convergence"), ("seconds", "seconds"), ("NLL_test", "held-out NLL")),
        strict=True,
    ):
        for kind in dict.fromkeys(row["rows"] for row in table):
            points = [(row["C"], row[name]) for row in table if row["rows"] == kind]
            values = np.array(points)
            # Densities of rows of different widths have no common scale.
            shown = values[:, 1] - (values[0, 1] if name == "NLL_test" else 0)
            ax.plot(values[:, 0], shown, "o-", label=kind)
        ax.set_xscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel(f"{label}, over the smallest C" if name == "NLL_test" else label)
        if name != "NLL_test":
            ax.set_ylim(0)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> None:
    """Write large.csv and large.png.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper.large", description=__doc__)
    parser.add_argument("--images", help="folder with train-*.tar of CIFAR-10; by default photographs of scikit-image")
    parser.add_argument("--patches", type=int, default=2_000_000, help="number of patches")
    parser.add_argument("--copies", type=int, default=500_000, help="number of images with their copies")
    parser.add_argument("--components", type=int, nargs="+", default=(500, 5_000, 50_000), help="C for patches")
    parser.add_argument("--of-images", type=int, nargs="*", default=(500, 5_000), help="C for images")
    parser.add_argument("--output", default="docs/results/paper", help="folder of large.csv and large.png")
    options = parser.parse_args(arguments)
    print(describe())
    table: list[dict[str, Any]] = []
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind, n_rows, sizes in (
            ("patches", options.patches, options.components), ("images", options.copies, options.of_images)
        ):  # fmt: skip
            path = rows.make(kind, n_rows, folder, options.images)
            test = rows.held_out(kind, _HELD_OUT, options.images)
            for n_components in sizes:
                table.append(_fit(path, test, kind, n_components))
                print(table[-1], flush=True)
                with (output / "large.csv").open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, table[0], lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(table)
    _draw(table, output / "large.png")


if __name__ == "__main__":
    main()
