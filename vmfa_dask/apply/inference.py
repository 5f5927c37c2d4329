"""Exact inference with a mixture: every component, no search. May import: values, tables, em, store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vmfa_dask.em.evaluation import evaluate_all_joints
from vmfa_dask.em.precision import Precision, derive
from vmfa_dask.em.rows import (
    ArrayRows,
    RowSource,
    read_ahead,
    refuse_non_finite,
    working_rows,
)
from vmfa_dask.em.threads import Cores, available_cores
from vmfa_dask.store.dask_rows import DaskRows
from vmfa_dask.store.gate import Lazy, Stored, admit, check_layout, shapes_of_rows
from vmfa_dask.store.rows import ZarrRows
from vmfa_dask.tables import NoFeatures
from vmfa_dask.values import Float64, Int64, Mixture

_BLOCK_BYTES = 64 * 2**20


def as_source(mixture: Mixture, x: Any, array: str | None = None, sample_dim: str | None = None) -> RowSource:
    """Rows in any form that a fit takes; what is not in memory is read block by block.

    Parameters
    ----------
    mixture : the model, whose shape the rows must have, or be flat
    x : (n, D) or (n, *feature_shape) in any form that `store.gate.admit` knows
    array, sample_dim : variable or member, and dimension that counts samples, as in a fit

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        When the rows have another shape than those of the model, the dtype holds no numbers, or it is not clear what to
        read.
    """
    try:
        return _opened(mixture.feature_shape, x, array, sample_dim)
    except NoFeatures as error:
        expected = shapes_of_rows(mixture.feature_shape)
        raise ValueError(f"{error.found}; expected {expected}: use reshape(1, -1) for one row") from error


def _opened(feature_shape: tuple[int, ...], x: Any, array: str | None, sample_dim: str | None) -> RowSource:
    found = admit("x", x, array, sample_dim)
    if isinstance(found, Stored):
        stored = ZarrRows(found.url, found.name, missing="fill")
        check_layout(stored.label, stored.feature_shape, feature_shape)
        stored.check_complete()  # named in the log
        stored.use_threads(available_cores())
        return stored
    rows = DaskRows(found.array, found.origin) if isinstance(found, Lazy) else ArrayRows(found.values, 1, found.origin)
    check_layout(found.origin.label, rows.feature_shape, feature_shape)
    return rows


@dataclass(frozen=True)
class Bounds:
    """What is known of the mean log-density of some rows from C' components of each, per row, in nats.

    ``free_energy <= score <= upper`` (paper, eq. ll_bounds).

    Parameters
    ----------
    free_energy : mean log of the mass of the C' components that explain a row best
    score : mean log-density, with all components
    upper : `free_energy` plus the mean ratio of the mass that was left out to the mass that was kept
    """

    free_energy: float
    score: float
    upper: float


class Evaluator:
    """Log-joints of rows with all components, block by block."""

    def __init__(self, mixture: Mixture, n_threads: int | None = None) -> None:
        self.mixture = mixture
        self.cores = Cores(n_threads or available_cores())
        self.precision: Precision = derive(mixture, self.cores)

    def blocks(self, rows: RowSource) -> Iterator[tuple[slice, Float64]]:
        """``(range, log-joints (C, n))`` of the blocks of rows."""
        size = int(np.clip(_BLOCK_BYTES // (8 * self.mixture.n_components), 16, 4096))
        for first, block in read_ahead(rows, 0, rows.n_rows, size):
            refuse_non_finite(rows, first, block)
            working = working_rows(block, self.mixture.offset, self.mixture.means.dtype.name)
            yield slice(first, first + len(block)), evaluate_all_joints(working, self.precision, self.cores)

    def score_samples(self, rows: RowSource) -> Float64:
        """log p(x) per row, (n,) float64, nats."""
        scores = np.empty(rows.n_rows)
        for part, joints in self.blocks(rows):
            scores[part] = _log_sum(joints)
        return scores

    def predict(self, rows: RowSource) -> Int64:
        """Component of largest joint per row, (n,) int64; ties go to the smaller number."""
        labels = np.empty(rows.n_rows, np.int64)
        for part, joints in self.blocks(rows):
            labels[part] = joints.argmax(axis=0)
        return labels

    def bounds(self, rows: RowSource, truncation: int) -> Bounds:
        """Bounds from the `truncation` best components of each row."""
        c, n = self.mixture.n_components, rows.n_rows
        sums, n_left = np.zeros(3), c - truncation
        for _, joints in self.blocks(rows):
            total, kept = _log_sum(joints), joints
            if n_left:
                kept = np.partition(joints, n_left, axis=0)[n_left:]
            captured = _log_sum(kept) if n_left else total
            sums += captured.sum(), total.sum(), np.expm1(total - captured).sum()  # expm1: mass left out over mass kept
        energy, score, ratio = (float(value) for value in sums / n)
        return Bounds(energy, score, energy + ratio)


def _log_sum(joints: Float64) -> Float64:
    """Logarithm of the sum over components of what is given by its logarithm, (n,)."""
    best = joints.max(axis=0)
    total: Float64 = best + np.log(np.exp(joints - best).sum(axis=0))
    return total
