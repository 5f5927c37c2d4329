"""Exact inference with a mixture: every component, no search. May import: values, runtime, em, run, apply, numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from vmfa_dask.apply.joints import ExactJoints
from vmfa_dask.em.rows import Rows
from vmfa_dask.run.row_source import RowSource, read_ahead, refuse_non_finite
from vmfa_dask.run.settings import Settings
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.values import Float64, Int64, Mixture

_BLOCK_BYTES = 64 * 2**20


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


class Evaluator:
    """Log-joints of rows with all components, row block by row block.

    Parameters
    ----------
    mixture : Mixture
        The model; components of weight 0 are left out.
    n_threads : int, optional
        Threads that compute; by default as many as cores are available.
    """

    def __init__(self, mixture: Mixture, n_threads: int | None = None) -> None:
        self.mixture = mixture
        self._alive = np.flatnonzero(mixture.weights > 0)
        self._exact = ExactJoints(_of_components(mixture, self._alive), Cores(n_threads or available_cores()))

    def blocks(self, rows: RowSource) -> Iterator[tuple[slice, Rows, Float64]]:
        """Log-joints log p(c, x), row block by row block.

        Parameters
        ----------
        rows : RowSource
            Rows of the width of the model.

        Yields
        ------
        part : slice
            Numbers of the rows in this block.
        block : (n, D) array
            The rows as they are stored.
        joints : (C, n) float64 array
            Nats, −inf where they are below what float64 holds; C counts the components of positive weight.

        Raises
        ------
        ValueError
            At a row that holds NaN or infinity.
        """
        size = int(np.clip(_BLOCK_BYTES // (8 * len(self._alive)), 16, 4096))
        for first, block in read_ahead(rows, 0, rows.n_rows, size):
            refuse_non_finite(rows, first, block)
            yield slice(first, first + len(block)), block, self._exact.of(block)

    def score_samples(self, rows: RowSource) -> Float64:
        """Log-density of each row.

        Parameters
        ----------
        rows : RowSource
            Rows of the width of the model.

        Returns
        -------
        (n,) float64 array
            log p(x) in nats; −inf where it is below what float64 holds.

        Raises
        ------
        ValueError
            At a row that holds NaN or infinity.
        """
        scores = np.empty(rows.n_rows)
        for part, _, joints in self.blocks(rows):
            scores[part] = _log_sum(joints)
        return scores

    def predict(self, rows: RowSource) -> Int64:
        """The most probable component of each row.

        Where all joints are below what float64 holds, the distance decides: so far away nothing else counts.

        Parameters
        ----------
        rows : RowSource
            Rows of the width of the model.

        Returns
        -------
        (n,) int64 array
            Numbers of components; ties go to the smaller number.

        Raises
        ------
        ValueError
            At a row that holds NaN or infinity.
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
        """Bounds of the mean log-density from the best components of each row (paper, eq. ll_bounds).

        Parameters
        ----------
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
        sums, n_left = np.zeros(3), max(0, len(self._alive) - truncation)
        for _, _, joints in self.blocks(rows):
            total, kept = _log_sum(joints), joints
            if n_left:
                kept = np.partition(joints, n_left, axis=0)[n_left:]
            captured = _log_sum(kept) if n_left else total
            finite = np.isfinite(captured)
            left_out = np.expm1(total[finite] - captured[finite])  # mass left out over mass kept
            with np.errstate(over="ignore"):
                sums += captured.sum(), total.sum(), left_out.sum()
        energy, score, ratio = (float(value) for value in sums / rows.n_rows)
        return Bounds(energy, score, energy + ratio)


def _of_components(mixture: Mixture, chosen: Int64) -> Mixture:
    """The mixture of some components, with their weights unchanged."""
    if len(chosen) == mixture.n_components:
        return mixture
    names = ("weights", "means", "loadings", "noise_variances")
    return replace(mixture, **{name: getattr(mixture, name)[chosen] for name in names})


def _log_sum(joints: Float64) -> Float64:
    """Logarithm of the sum over components, (n,)."""
    best = joints.max(axis=0)
    shift = np.where(np.isfinite(best), best, 0.0)  # −inf − (−inf) is no number
    with np.errstate(divide="ignore"):
        total: Float64 = shift + np.log(np.exp(joints - shift).sum(axis=0))
    return total
