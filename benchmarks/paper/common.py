"""Shared by the experiments: command line, data, fits as rows of a table, tables and figures."""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks import images
from benchmarks.machine import describe
from vmfa_dask import Fit, fit_local

Row = dict[str, Any]
# One colour per setting: there are up to thirteen.
_COLORS = [
    f"tab:{name}" for name in ("blue", "orange", "green", "red", "purple", "brown", "pink", "gray", "olive", "cyan")
]
_COLORS += ["black", "gold", "navy", "lime", "teal", "salmon", "plum", "tan"]


@dataclass(frozen=True)
class Experiment:
    """Data and sizes of an experiment.

    Parameters
    ----------
    name : str
        Its module, and the name of the files that it writes.
    train, test : (N, height, width, channels) uint8 array
        Training and test rows.
    n_components : int
        C, the largest one in experiments with a range of C.
    seeds : range
        Random states with which each setting is repeated.
    output : path
        Folder of the table and the figure.
    """

    name: str
    train: np.ndarray
    test: np.ndarray
    n_components: int
    seeds: range
    output: Path

    def fit(self, label: str, train: np.ndarray | None = None, **settings: Any) -> Iterator[Row]:
        """Fit once per seed.

        Parameters
        ----------
        label : str
            Name of the setting in the table.
        train : array, optional
            Training rows; by default all.
        **settings
            Keywords of `fit_local` that differ from the paper's settings.

        Yields
        ------
        Row
            A row of the table per fit.
        """
        rows = self.train if train is None else train
        numbers = {"preset": "paper", "n_components": self.n_components, **settings}
        for seed in self.seeds:
            begin = time.perf_counter()
            fit = fit_local(rows, random_state=seed, **numbers)
            yield self._row(label, seed, fit, len(rows), time.perf_counter() - begin)

    def _row(self, label: str, seed: int, fit: Fit, n_rows: int, seconds: float) -> Row:
        joints = sum(record.n_joints for record in fit.history if record.phase != "final")
        row = {
            "setting": label,
            "seed": seed,
            "C": fit.settings.n_components,
            "N": n_rows,
            "nll_test": -fit.model.score(self.test),
            "free_energy": fit.history[-1].free_energy,
            "warmup": sum(record.phase == "warm-up" for record in fit.history),
            "iterations": sum(record.phase != "final" for record in fit.history),
            "joints": joints,
            "joints_per_row": joints / n_rows,
            "seconds": seconds,
            "components": fit.model.n_components,
        }
        say(row)
        return row

    def write(self, rows: Iterable[Row]) -> list[Row]:
        """Write the table row by row, so that an interrupted experiment leaves its results so far.

        Parameters
        ----------
        rows : iterable of Row
            Fits, as they end.

        Returns
        -------
        list of Row
            All of them.
        """
        written: list[Row] = []
        with open(self.output / f"{self.name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = None
            for row in rows:
                if writer is None:
                    writer = csv.DictWriter(file, fieldnames=list(row))
                    writer.writeheader()
                writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
                file.flush()
                written.append(row)
        return written

    @property
    def figure(self) -> Path:
        """Path of the figure."""
        return self.output / f"{self.name}.png"


def say(row: Row) -> None:
    """Print a row of the table.

    Parameters
    ----------
    row : Row
        The figures of a fit.
    """
    print(
        f"  {row['setting']:32s} seed {row['seed']}  C {row['C']:5d}  NLL {row['nll_test']:10.3f}  "
        f"{row['warmup']:3d}/{row['iterations']:3d} iterations  {row['joints'] / 1e6:9.2f} M joints  "
        f"{row['seconds']:7.1f} s",
        flush=True,
    )


@contextmanager
def experiment(name: str, arguments: list[str] | None, seeds: int = 1) -> Iterator[Experiment]:
    """Set up an experiment from the command line.

    Parameters
    ----------
    name : str
        Its module.
    arguments : list of str, optional
        Of the command line; by default those of this process.
    seeds : int
        Default number of repetitions.

    Yields
    ------
    Experiment
        With data; temporary files are removed when the context is left.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.paper.{name}")
    parser.add_argument(
        "--images", help="folder with train-*.tar and test-*.tar of CIFAR-10 (default: patches of photographs)"
    )
    parser.add_argument("--digits", action="store_true", help="scikit-learn's digits instead of images")
    parser.add_argument("--size", type=int, default=32, help="height and width of the patches")
    parser.add_argument("--components", type=int, default=800, help="C")
    parser.add_argument("--seeds", type=int, default=seeds, help="repetitions of each setting")
    parser.add_argument("--output", default="benchmark-output", help="folder of the table and the figure")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    options = parser.parse_args(arguments)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vmfa-paper-") as folder:
        train, test = _rows(options, folder)
        components = min(options.components, 30) if options.quick else options.components
        print(f"{name}: {train.shape} and {test.shape} {train.dtype}, C = {components}, on {describe()}", flush=True)
        fit_local(train[:500], n_components=4, max_iter=1, max_warmup_iter=1)  # loads the kernels before timing
        yield Experiment(name, train, test, components, range(options.seeds), output)


def _rows(options: argparse.Namespace, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows."""
    if options.digits:
        from sklearn.datasets import load_digits

        digits = load_digits().images.astype(np.uint8)[..., None]
        return digits[:1500], digits[1500:]
    if options.images:
        made = images.prepare(folder, options.images)
        train, test = (np.asarray(zarr.open_array(path, mode="r")[:]) for path in (made.train, made.test))
        return train, test
    n, size = (3000, 8) if options.quick else (50_000, options.size)
    patches = images.photograph_patches(n + n // 5, size)
    return patches[:n], patches[n:]


def means(rows: Iterable[Row], key: str = "setting") -> dict[Any, Row]:
    """Average over seeds.

    Parameters
    ----------
    rows : iterable of Row
        The table.
    key : str
        Column by which rows are grouped.

    Returns
    -------
    dict
        Means of the numeric columns per group, in the order of the table.
    """
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    numbers = ("nll_test", "free_energy", "warmup", "iterations", "joints", "joints_per_row", "seconds")
    return {
        name: {number: float(np.mean([r[number] for r in group])) for number in numbers}
        for name, group in groups.items()
    }


def axes(title: str, x: str, y: str) -> tuple[Any, Any]:
    """Create a figure with one pair of axes.

    Parameters
    ----------
    title, x, y : str
        Title, and labels of the axes.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.
    axes : matplotlib.axes.Axes
        Its axes.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    ax.set(title=title, xlabel=x, ylabel=y)
    ax.grid(alpha=0.3)
    return figure, ax


def scatter_quality(
    rows: list[Row], experiment: Experiment, baseline: str, title: str, x: str = "joints_per_row"
) -> None:
    """Draw the NLL relative to a baseline against the work of a fit, with standard errors over seeds.

    Parameters
    ----------
    rows : list of Row
        The table.
    experiment : Experiment
        Names the file of the figure.
    baseline : str
        The setting to which others are compared.
    title : str
        Title of the figure.
    x : {"joints_per_row", "seconds"}
        The measure of work.
    """
    found = means(rows)
    base = found[baseline]["nll_test"]
    label = {"joints_per_row": "joints per row until convergence", "seconds": "seconds"}[x]
    figure, ax = axes(title, label, f"test NLL relative to {baseline} (%)")
    for color, (name, row) in zip(_COLORS, found.items(), strict=False):
        relative = [100 * (r["nll_test"] - base) / abs(base) for r in rows if r["setting"] == name]
        y = float(np.mean(relative))
        spread = float(np.std(relative, ddof=1) / len(relative) ** 0.5) if len(relative) > 1 else 0.0
        ax.errorbar(row[x], y, yerr=spread, fmt="o", capsize=3, label=name, color=color)
        fewer = found[baseline]["joints"] / max(row["joints"], 1)
        print(
            f"  {name:32s} {y:+7.3f} ± {spread:.3f} %  {fewer:6.1f} x fewer joints  "
            f"{row['warmup']:.1f} / {row['iterations']:.1f} iterations  {row['seconds']:.1f} s"
        )
    ax.set_xscale("log")
    ax.margins(y=0.1)
    if max(abs(100 * (row["nll_test"] - base) / base) for row in found.values()) > 1:
        ax.set_yscale("symlog", linthresh=0.1)  # models without training are far away from all others
    ax.legend(bbox_to_anchor=(1.02, 1), loc="upper left", fontsize=8, frameon=False)
    ax.axhline(0, color="0.5", linewidth=0.8)
    figure.savefig(experiment.figure, dpi=130)
