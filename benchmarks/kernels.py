"""The kernels of log-joints and moments, as fractions of the rate of a float32 matrix product."""

from __future__ import annotations

import numpy as np

from benchmarks.machine import Sgemm, ratio_to_sgemm
from benchmarks.report import Report
from vmfa_dask.em.evaluation import add_moments, evaluate_all_joints, evaluate_joints
from vmfa_dask.em.packed import pack_mixture
from vmfa_dask.run.plan import TILE_BYTES
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.values import Mixture, Moments

WIDTHS, FACTORS, DTYPES = (64, 144, 768, 3072), (0, 5, 10), ("uint8", "float32", "float64")
BOUNDS = {("uint8", 3072, 5): 0.85, ("float32", 3072, 5): 0.5, ("float32", 144, 5): 0.4}
_ROWS_PER_COMPONENT = 150
_CANDIDATES = 34


class Case:
    """Rows, a mixture, and the rows grouped by component as in an E-step, with 34 candidates per row.

    Parameters
    ----------
    dtype : str
        The dtype of the rows.
    n_features : int
        D.
    n_factors : int
        H.
    cores : Cores
        Threads of the kernels.
    """

    def __init__(self, dtype: str, n_features: int, n_factors: int, cores: Cores) -> None:
        rng = np.random.default_rng(1)
        n = int(np.clip(TILE_BYTES // (n_features * min(np.dtype(dtype).itemsize, 4)), 256, 8192))
        # The run narrows float64 rows once per row block; kernels in float32 never see them.
        stored = "float32" if dtype == "float64" else dtype
        self.rows = rng.integers(0, 256, (n, n_features)).astype(stored)
        c = max(8, n * _CANDIDATES // _ROWS_PER_COMPONENT)
        self.mixture = Mixture(
            np.full(c, 1 / c),
            rng.uniform(0, 255, (c, n_features)).astype(np.float32),
            rng.normal(0, 9, (c, n_factors, n_features)).astype(np.float32),
            rng.uniform(90, 400, (c, n_features)).astype(np.float32),
        )
        if dtype == "float64":
            self.rows = self.rows.astype(np.float64)
        self.cores, self.precision = cores, pack_mixture(self.mixture, cores)
        members = [np.sort(rng.choice(n, min(n, _ROWS_PER_COMPONENT), replace=False)) for _ in range(c)]
        self.members = np.concatenate(members).astype(np.int32)
        self.indptr = np.concatenate([[0], np.cumsum([len(m) for m in members])])
        self.joints, self.responsibilities = np.empty(len(self.members)), np.full(len(self.members), 0.5)

    def log_joints(self) -> None:
        """Evaluate all log-joints of the case once."""
        evaluate_joints(self.rows, self.members, self.indptr, self.precision, self.cores, self.joints)

    def prepare_moments(self) -> None:
        """Allocate the sums that `moments` fills."""
        c, h, d = self.mixture.n_components, self.mixture.n_factors, self.mixture.n_features
        self.totals = Moments(np.empty(c), np.empty((c, h + 1, h + 1)), np.empty((c, h + 2, d)))

    def moments(self) -> None:
        """Compute the moments of all components once."""
        components = np.arange(self.mixture.n_components, dtype=np.int32)
        grouped = (self.rows, self.members, self.indptr, components, self.responsibilities)
        add_moments(*grouped, self.precision, self.mixture.means, self.cores, 0, self.totals)

    def all_joints(self) -> None:
        """Evaluate all rows with all components once, as in exhaustive search."""
        evaluate_all_joints(self.rows, self.precision, self.cores)


def run_exhaustive(report: Report, sgemm: Sgemm, cores: Cores, quick: bool) -> None:
    """Measure exhaustive evaluation, with and without factors.

    Parameters
    ----------
    report : Report
        Collects the checks.
    sgemm : Sgemm
        The yardstick.
    cores : Cores
        Threads of the kernels.
    quick : bool
        Tiny sizes.
    """
    print("  exhaustive evaluation of uint8 rows:")
    for name, h, low in (("mfa, H=5", 5, 0.8), ("diagonal and isotropic", 0, 1 / 1.3)):
        for d in WIDTHS[:1] if quick else (144, 3072):
            case = Case("uint8", d, h, cores)
            n = len(case.rows) * case.mixture.n_components
            case.all_joints()
            rate, ratio = ratio_to_sgemm(sgemm, case.all_joints, n * (2 * h + 4) * d, 1 if quick else 5)
            print(f"  {name:24s} D={d:5d}   {rate / ((2 * h + 4) * d) / 1e6:9.2f} M/s   {rate / 1e9:7.1f} GFLOP/s")
            report.check(f"exhaustive log-joints, {name}, D={d}, of sgemm", ratio, low=low)


def run(report: Report, quick: bool = False) -> None:
    """Measure the kernels and print a table.

    A joint counts as (2H + 4)·D floating-point operations, a row of moments as (4H + 9)·D, its projection included.

    Parameters
    ----------
    report : Report
        Collects the checks.
    quick : bool
        Tiny sizes.
    """
    cores, sgemm = Cores(available_cores()), Sgemm(512 if quick else 1536)
    print(f"kernels, {cores.n_threads} threads; sgemm {sgemm.rate() / 1e9:.0f} GFLOP/s")
    print("  rows      D      H   log-joints/s   GFLOP/s   of sgemm   moments: of sgemm")
    rounds = 1 if quick else 5
    for dtype in DTYPES[:1] if quick else DTYPES:
        for d in WIDTHS[:1] if quick else WIDTHS:
            for h in FACTORS[:2] if quick else FACTORS:
                case = Case(dtype, d, h, cores)
                case.log_joints()
                case.prepare_moments()
                case.moments()
                n = len(case.members)
                rate, ratio = ratio_to_sgemm(sgemm, case.log_joints, n * (2 * h + 4) * d, rounds)
                _, moments = ratio_to_sgemm(sgemm, case.moments, n * (4 * h + 9) * d, rounds)
                print(
                    f"  {dtype:8s} {d:5d} {h:4d}   {rate / ((2 * h + 4) * d) / 1e6:9.2f} M   {rate / 1e9:7.1f}   "
                    f"{ratio:8.2f}   {moments:8.2f}",
                    flush=True,
                )
                if (dtype, d, h) in BOUNDS:
                    report.check(f"log-joints {dtype} D={d} H={h} of sgemm", ratio, low=BOUNDS[dtype, d, h])
    run_exhaustive(report, sgemm, cores, quick)
