"""What a pass does on one thread, and what 64 cores would make of it: ``python -m benchmarks.scale.cores``.

Times passes at C = 800 and D = 3,072 with one thread and with all, which tells how much of each phase the others wait
for, and predicts a pass on 64 cores from that. Memory and caches of such a machine are not part of the prediction.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import zarr
from distributed.deploy.utils import nprocesses_nthreads

from benchmarks.machine import describe
from benchmarks.scale import rows
from vmfa_dask import plan_run

_CORES = 64


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and write it to cores.md.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.cores", description=__doc__)
    parser.add_argument("--images", help="folder with train-*.tar of CIFAR-10; by default photographs of scikit-image")
    parser.add_argument("--rows", type=int, default=50_000, help="number of rows of the predicted run")
    parser.add_argument("--components", type=int, default=800, help="C")
    parser.add_argument("--output", default="docs/results/scale", help="folder of cores.md")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = zarr.open_array(rows.make("images", options.rows, folder, options.images), mode="r")[:]
    sizes = {"n_components": options.components, "n_factors": 5, "preset": "paper"}
    here = plan_run(data, **sizes)
    phases, threads = here.rates.phases, here.layout.threads
    one = plan_run(data, **sizes, threads=1, rates=here.rates)
    alone = {name: one.seconds[name] * rate.share_alone for name, rate in phases.items()}
    lines = [
        f"| {name} | {one.seconds[name]:.3f} | {here.seconds[name]:.3f} | {100 * phases[name].share_alone:.0f} % |"
        for name in phases
    ]
    total = sum(one.seconds[name] for name in phases)
    lines.append(
        f"| all | {total:.3f} | {sum(here.seconds[name] for name in phases):.3f} | "
        f"{100 * sum(alone.values()) / total:.1f} % |"
    )
    layouts = {
        "`Client()`": nprocesses_nthreads(_CORES), "one process": (1, _CORES), "8 x 8": (8, _CORES // 8),
    }  # fmt: skip
    predicted = []
    for name, (processes, per_process) in layouts.items():
        plan = plan_run(data, **sizes, processes=processes, threads=per_process, n_groups=_CORES, rates=here.rates)
        predicted.append(
            f"| {name} | {processes} x {per_process} | {plan.seconds_per_pass:.3f} | "
            f"{one.seconds_per_pass / plan.seconds_per_pass:.0f} | {plan.limited_by} |"
        )
    text = f"""# What one thread does alone

`python -m benchmarks.scale.cores`, {len(data):,} rows of {data.shape[1]:,} bytes, C = {options.components}, H = 5, the
paper's search. Seconds of a settled training pass with one thread and with {threads}, from which the last column
follows.

Machine: {describe()}.

| phase | one thread | {threads} threads | alone |
|---|---|---|---|
""" + "\n".join(lines) + f"""

On {_CORES} cores, by that alone (no account of the memory and caches of such a machine):

| layout | processes x threads | seconds of a pass | times one thread | most of it |
|---|---|---|---|---|
""" + "\n".join(predicted)
    print(text)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "cores.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
