"""Joints until convergence against C at a constant number of rows per component (paper, section on scalability)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.paper.common import Experiment, Row, axes, experiment, means

STEPS = 8


def rows(e: Experiment) -> Iterator[Row]:
    """v-MFA and exact EM on evenly thinned rows for C = C_max / 8, ..., C_max."""
    shuffled = np.random.default_rng(0).permutation(len(e.train))
    for step in range(1, STEPS + 1):
        c = e.n_components * step // STEPS
        part = e.train[np.sort(shuffled[: len(e.train) * step // STEPS])]
        yield from e.fit("v-MFA", part, n_components=c)
        yield from e.fit("em-MFA", part, n_components=c, search="exhaustive")


def main(arguments: list[str] | None = None) -> None:
    """Write scaling.csv and scaling.png; print the exponents of joints per row ~ C^a."""
    with experiment("scaling", arguments) as e:
        table = e.write(rows(e))
        figure, ax = axes("Scaling with C, N/C constant", "C", "joints per row until convergence")
        for name, marker in (("em-MFA", "s"), ("v-MFA", "o")):
            points = means([row for row in table if row["setting"] == name], "C")
            c, joints = np.array(list(points)), np.array([row["joints_per_row"] for row in points.values()])
            exponent, intercept = np.polyfit(np.log(c), np.log(joints), 1)
            print(f"  {name}: joints per row ~ C^{exponent:.3f}")
            ax.loglog(c, joints, marker, label=f"{name}, exponent {exponent:.2f}")
            ax.loglog(c, np.exp(intercept) * c**exponent, color=ax.lines[-1].get_color(), linewidth=1)
        ax.legend()
        figure.savefig(e.figure, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1:])
