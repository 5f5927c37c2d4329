"""Exact inference with a mixture: every component, no search. May import: values, tables, em, store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vmfa_dask.apply.joints import ExactJoints
from vmfa_dask.em.rows import Rows
from vmfa_dask.run.row_source import ArrayRows, RowSource, read_ahead, refuse_non_finite
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import Cores, available_cores
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


def checked_truncation(truncation: int | None, n_components: int) -> int:
    """C' of bounds, by default as in fits.

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
        self._alive = np.flatnonzero(mixture.weights > 0)
        self._exact = ExactJoints(_of_components(mixture, self._alive), Cores(n_threads or available_cores()))

    def blocks(self, rows: RowSource) -> Iterator[tuple[slice, Rows, Float64]]:
        """``(range, rows, log-joints (C, n))`` of the blocks of rows; C counts the components of positive weight."""
        size = int(np.clip(_BLOCK_BYTES // (8 * len(self._alive)), 16, 4096))
        for first, block in read_ahead(rows, 0, rows.n_rows, size):
            refuse_non_finite(rows, first, block)
            yield slice(first, first + len(block)), block, self._exact.of(block)

    def score_samples(self, rows: RowSource) -> Float64:
        """log p(x) per row, (n,) float64, nats; −inf where it is below what float64 holds."""
        scores = np.empty(rows.n_rows)
        for part, _, joints in self.blocks(rows):
            scores[part] = _log_sum(joints)
        return scores

    def predict(self, rows: RowSource) -> Int64:
        """Component of largest joint per row, (n,) int64; ties go to the smaller number.

        Where all joints are below what float64 holds, the distance decides, which is all that counts that far away.
        """
        labels = np.empty(rows.n_rows, np.int64)
        for part, block, joints in self.blocks(rows):
            best = joints.argmax(axis=0)
            lost = np.flatnonzero(np.isneginf(joints.max(axis=0)))
            if len(lost):
                best[lost] = self._exact.nearest(block[lost])
            labels[part] = self._alive[best]
        return labels

    def bounds(self, rows: RowSource, truncation: int) -> Bounds:
        """Bounds from the `truncation` best components of each row."""
        sums, n_left = np.zeros(3), max(0, len(self._alive) - truncation)
        for _, _, joints in self.blocks(rows):
            total, kept = _log_sum(joints), joints
            if n_left:
                kept = np.partition(joints, n_left, axis=0)[n_left:]
            captured = _log_sum(kept) if n_left else total
            known = np.isfinite(captured)
            left_out = np.expm1(total[known] - captured[known])  # mass left out over mass kept
            with np.errstate(over="ignore"):
                sums += captured.sum(), total.sum(), left_out.sum()
        energy, score, ratio = (float(value) for value in sums / rows.n_rows)
        return Bounds(energy, score, energy + ratio)


def _of_components(mixture: Mixture, chosen: Int64) -> Mixture:
    """The mixture of some components, with the weights that they have."""
    if len(chosen) == mixture.n_components:
        return mixture
    names = ("weights", "means", "loadings", "noise_variances")
    return replace(mixture, **{name: getattr(mixture, name)[chosen] for name in names})


def _log_sum(joints: Float64) -> Float64:
    """Logarithm of the sum over components of what is given by its logarithm, (n,)."""
    best = joints.max(axis=0)
    shift = np.where(np.isfinite(best), best, 0.0)  # −inf − (−inf) is no number
    with np.errstate(divide="ignore"):
        total: Float64 = shift + np.log(np.exp(joints - shift).sum(axis=0))
    return total
