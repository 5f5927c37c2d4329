"""How well `plan_run` predicts fits: ``python -m benchmarks.scale.costs [--images FOLDER]``.

Rates are measured once for patches; then fits are timed whose numbers of rows and components span two orders of
magnitude, and with none of which the rates were measured.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import zarr

from benchmarks.machine import describe
from benchmarks.scale import rows
from vmfa_dask import fit_local, plan_run

# N and C.
_SIZES = ((20_000, 200), (20_000, 2_000), (200_000, 500), (200_000, 5_000), (2_000_000, 800), (2_000_000, 20_000))
_SETTINGS = {"n_factors": 5, "preset": "paper", "init_params": "uniform"}


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and write it to costs.md.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.costs", description=__doc__)
    parser.add_argument("--images", help="folder with train-*.tar of CIFAR-10; by default photographs of scikit-image")
    parser.add_argument("--most", type=int, default=2_000_000, help="largest number of rows")
    parser.add_argument("--output", default="docs/results/scale", help="folder of costs.md")
    options = parser.parse_args(arguments)
    sizes = [(n, c) for n, c in _SIZES if n <= options.most]
    with tempfile.TemporaryDirectory() as folder:
        data = zarr.open_array(rows.make("patches", max(n for n, _ in sizes), folder, options.images), mode="r")[:]
    rates = plan_run(data, n_components=1_000, **_SETTINGS).rates
    lines = []
    for n_rows, n_components in sizes:
        plan = plan_run(data[:n_rows], n_components=n_components, rates=rates, **_SETTINGS)
        fit = fit_local(data[:n_rows], n_components=n_components, max_warmup_iter=3, max_iter=4, tol=0.0, **_SETTINGS)
        seconds = median(record.seconds for record in fit.history if record.phase == "training")
        lines.append(
            f"| {n_rows:,} | {n_components:,} | {plan.seconds_per_pass:.2f} | {seconds:.2f} | "
            f"{plan.seconds_per_pass / seconds:.2f} |"
        )
        print(lines[-1], flush=True)
    text = f"""# Predicted and measured seconds of a pass

`python -m benchmarks.scale.costs`: patches of 8 x 8 x 3 bytes, H = 5, the paper's search, in one process. Rates were
measured once, with {rates.joints_per_row:.1f} log-joints per row; the passes are the median of four of training.

Machine: {describe()}.

| rows | components | predicted | measured | ratio |
|---|---|---|---|---|
""" + "\n".join(lines)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "costs.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
