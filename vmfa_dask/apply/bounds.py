"""Bounds of the log-density of rows from the best components of each. May import: values, run, apply, numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.posteriors import log_sum
from vmfa_dask.run.row_source import RowSource
from vmfa_dask.run.settings import Settings


def checked_truncation(truncation: int | None, n_components: int) -> int:
    """C' of bounds, by default as in fits.

    Parameters
    ----------
    truncation : int or None
        C', components kept per row.
    n_components : int
        C.

    Returns
    -------
    int
        From 1 to C.

    Raises
    ------
    ValueError
        When it is outside its range.
    """
    if truncation is None:
        return Settings(n_components).truncation
    if not 1 <= truncation <= n_components:
        raise ValueError(f"truncation={truncation}: expected 1 to n_components={n_components}")
    return truncation


@dataclass(frozen=True)
class Bounds:
    """Bounds of the mean log-density of some rows from the best C' components of each, in nats per row.

    ``free_energy <= score <= upper`` (paper, eq. ll_bounds).

    Parameters
    ----------
    free_energy : float
        Mean log of the mass of the C' components that explain a row best.
    score : float
        Mean log-density, with all components.
    upper : float
        `free_energy` plus the mean ratio of the mass that was left out to the mass that was kept.
    """

    free_energy: float
    score: float
    upper: float


def bounds_of(evaluator: Evaluator, rows: RowSource, truncation: int) -> Bounds:
    """Bounds of the mean log-density from the best components of each row (paper, eq. ll_bounds).

    Parameters
    ----------
    evaluator : Evaluator
        Of the mixture.
    rows : RowSource
        Rows of the width of the model.
    truncation : int
        C', components that count in each row.

    Returns
    -------
    Bounds
        Nats per row.

    Raises
    ------
    ValueError
        At a row that holds NaN or infinity.
    """
    sums = np.zeros(3)
    for _, block in evaluator.blocks(rows):
        joints = evaluator.joints(block)
        n_left = max(0, len(joints) - truncation)
        total, kept = log_sum(joints), joints
        if n_left:
            kept = np.partition(joints, n_left, axis=0)[n_left:]
        captured = log_sum(kept) if n_left else total
        finite = np.isfinite(captured)
        left_out = np.expm1(total[finite] - captured[finite])  # mass left out over mass kept
        with np.errstate(over="ignore"):
            sums += captured.sum(), total.sum(), left_out.sum()
    energy, score, ratio = (float(value) for value in sums / rows.n_rows)
    return Bounds(energy, score, energy + ratio)
