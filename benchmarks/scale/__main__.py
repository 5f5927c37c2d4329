"""A large fit and its figures: ``python -m benchmarks.scale --rows N --components C [...]``.

Writes the passes to NAME.csv and the memory to NAME-memory.csv; `benchmarks.scale.figure` draws all that it finds.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import zarr

from benchmarks.fits import client
from benchmarks.machine import describe
from benchmarks.scale import rows
from benchmarks.scale.memory import MemoryCurve, resident_bytes
from vmfa_dask import Fit, IterationRecord, fit_distributed, fit_local

# The paper's settings for very many components.
_SETTINGS = {"init_params": "uniform", "warmup_tol": 1e-3, "tol": 1e-4, "standardize": False}


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--data", choices=("patches", "images"), default="patches", help="8 x 8 patches, or images")
    parser.add_argument("--rows", type=int, default=2_000_000, help="number of rows")
    parser.add_argument("--components", type=int, default=20_000, help="C")
    parser.add_argument("--factors", type=int, default=5, help="H")
    parser.add_argument("--processes", type=int, default=0, help="worker processes; 0 for this process alone")
    parser.add_argument("--images", help="folder with train-*.tar of CIFAR-10; by default photographs of scikit-image")
    parser.add_argument("--folder", help="where the rows are kept between calls; by default a temporary folder")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting; repeatable")
    parser.add_argument("--output", default="docs/results/scale", help="folder of the tables")
    parser.add_argument("--name", help="of the tables; by default from data and sizes")
    return parser.parse_args(arguments)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "None": None}.get(text, text)


def _fit(path: str, options: argparse.Namespace, stack: ExitStack) -> Fit:
    settings = {**_SETTINGS, **{name: _value(text) for name, text in (s.split("=", 1) for s in options.set)}}
    sizes = {"n_components": options.components, "n_factors": options.factors}

    def report(record: IterationRecord) -> None:
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in record.seconds_per_phase.items())
        print(f"{record.line()}\n    {phases}; {resident_bytes() / 2**30:.2f} GiB", flush=True)

    if options.processes:
        return fit_distributed(
            path, client=stack.enter_context(client(options.processes)), progress=report, **sizes, **settings
        )
    return fit_local(path, progress=report, **sizes, **settings)


def _write(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(lines)


def _passes(history: Sequence[IterationRecord]) -> tuple[list[str], list[list[Any]]]:
    phases = list(dict.fromkeys(name for record in history for name in record.seconds_per_phase))
    header = ["phase", "free_energy", "joints_per_row", "n_alive", "seconds", *phases]
    lines = [
        [r.phase, f"{r.free_energy:.4f}", f"{r.joints_per_row:.2f}", r.n_alive, f"{r.seconds:.3f}"]
        + [f"{r.seconds_per_phase.get(name, 0.0):.3f}" for name in phases]
        for r in history
    ]
    return header, lines


def main(arguments: list[str] | None = None) -> None:
    """Run one fit, print its passes, and write its tables.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.
    """
    options = _arguments(arguments)
    name = options.name or f"{options.data}-{options.rows}-c{options.components}"
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    print(describe())
    with ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory())
        path = rows.make(options.data, options.rows, folder, options.images)
        before, begin = resident_bytes(), time.perf_counter()
        curve = stack.enter_context(MemoryCurve())
        fit = _fit(path, options, stack)
        seconds = time.perf_counter() - begin
        n_features = zarr.open_array(path, mode="r").shape[1]
    parameters = 4 * options.components * n_features * (options.factors + 2)
    print(
        f"{seconds:.1f} s, {len(fit.history)} passes, {fit.model.n_components} components; peak "
        f"{curve.peak / 2**30:.2f} GiB, {(curve.peak - before) / parameters:.2f} times the parameters beside "
        f"{before / 2**30:.2f} GiB before"
    )
    _write(output / f"{name}.csv", *_passes(fit.history))
    memory = [[f"{at:.2f}", f"{size / 2**30:.3f}"] for at, size in curve.samples]
    _write(output / f"{name}-memory.csv", ["seconds", "gibibytes"], memory)


if __name__ == "__main__":
    main()
