"""Exact inference with a mixture: every component, no search.

May import: values, runtime, kernels, em, run, apply, numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from vmfa_dask.apply.joints import ExactJoints
from vmfa_dask.apply.posteriors import SparseProbabilities, dense_posteriors, kept_posteriors, log_sum
from vmfa_dask.em.evaluation import evaluate_expected_rows
from vmfa_dask.em.rows import Rows
from vmfa_dask.kernels.arguments import RowPairs
from vmfa_dask.run.row_source import RowSource, read_ahead, refuse_non_finite
from vmfa_dask.runtime.threads import Cores, available_cores
from vmfa_dask.values import Float64, Int64, Mixture

# Of the joints of a row block, and of its rows in float64.
_BLOCK_BYTES = 64 * 2**20
# Smaller posteriors change a sum over components by less than the rounding of its largest term.
_NEGLIGIBLE = 1e-16


def rows_per_block(mixture: Mixture) -> int:
    """Rows that are evaluated together: their joints and their numbers stay below a bound.

    Parameters
    ----------
    mixture : Mixture
        The model.

    Returns
    -------
    int
        From 16 to 4096.
    """
    return int(np.clip(_BLOCK_BYTES // (8 * max(mixture.n_components, mixture.n_features)), 16, 4096))


class Evaluator:
    """What a mixture says of rows, row block by row block; no result depends on how rows are cut into blocks.

    It holds the packed form of the mixture, which is about as large as the mixture itself. Safe to use from several
    threads.

    Parameters
    ----------
    mixture : Mixture
        The model; components of weight 0 are left out.
    n_threads : int, optional
        Threads that compute; by default as many as cores are available.
    """

    def __init__(self, mixture: Mixture, n_threads: int | None = None) -> None:
        self.mixture, self.cores = mixture, _shared_cores(n_threads or available_cores(), os.getpid())
        self._alive = np.flatnonzero(mixture.weights > 0)
        self._exact = ExactJoints(_of_components(mixture, self._alive), self.cores)

    @property
    def block_rows(self) -> int:
        """Rows that are evaluated together."""
        return rows_per_block(self.mixture)

    def blocks(self, rows: RowSource, start: int = 0, stop: int | None = None) -> Iterator[tuple[slice, Rows]]:
        """Row blocks of a range; the next one is read while the caller works.

        Parameters
        ----------
        rows : RowSource
            Rows of the width of the model.
        start, stop : int, optional
            The range; by default all rows.

        Yields
        ------
        part : slice
            Numbers of the rows in this block.
        block : (n, D) array
            The rows as they are stored.

        Raises
        ------
        ValueError
            At a row that holds NaN or infinity.
        """
        for first, block in read_ahead(rows, start, rows.n_rows if stop is None else stop, self.block_rows):
            refuse_non_finite(rows, first, block)
            yield slice(first, first + len(block)), block

    def joints(self, block: Rows) -> Float64:
        """Log-joints of the components of positive weight.

        Parameters
        ----------
        block : (n, D) array
            Finite rows as they are stored; so for the other methods.

        Returns
        -------
        (C, n) float64 array
            log p(c, x) in nats; −inf where it is below what float64 holds.
        """
        return self._exact.of(block)

    def scores(self, block: Rows) -> Float64:
        """Log-density of each row.

        Parameters
        ----------
        block : (n, D) array
            Rows.

        Returns
        -------
        (n,) float64 array
            log p(x) in nats; −inf where it is below what float64 holds.
        """
        return log_sum(self.joints(block))

    def labels(self, block: Rows) -> Int64:
        """The most probable component of each row.

        Where all joints are below what float64 holds, the distance decides: so far away nothing else counts.

        Parameters
        ----------
        block : (n, D) array
            Rows.

        Returns
        -------
        (n,) int64 array
            Numbers of components; ties go to the smaller number.
        """
        labels: Int64 = self._alive[self._exact.with_best(block)[1]]
        return labels

    def probabilities(self, block: Rows) -> Float64:
        """Posteriors of all components.

        Parameters
        ----------
        block : (n, D) array
            Rows.

        Returns
        -------
        (n, C) float64 array
            p(c|x); each row sums to 1.
        """
        probabilities = dense_posteriors(self._exact, block, self.joints(block))
        if len(self._alive) == self.mixture.n_components:
            return probabilities
        spread = np.zeros((len(block), self.mixture.n_components))
        spread[:, self._alive] = probabilities
        return spread

    def kept_probabilities(self, block: Rows, truncation: int) -> SparseProbabilities:
        """Posteriors of the best components of each row.

        Parameters
        ----------
        block : (n, D) array
            Rows.
        truncation : int
            C', from 1 to C.

        Returns
        -------
        SparseProbabilities
            Components of weight 0 come last.
        """
        kept = self._kept(block, min(truncation, len(self._alive)))
        components = self._alive[kept.components].astype(np.int32)
        missing = truncation - components.shape[1]
        if missing <= 0:
            return replace(kept, components=components)
        dropped = np.flatnonzero(self.mixture.weights == 0)[:missing].astype(np.int32)
        return SparseProbabilities(
            np.hstack([components, np.tile(dropped, (len(block), 1))]),
            np.hstack([kept.probabilities, np.zeros((len(block), missing))]),
            kept.captured,
        )

    def _kept(self, block: Rows, truncation: int) -> SparseProbabilities:
        """As `kept_probabilities`, numbered among the components of positive weight."""
        return kept_posteriors(self._exact, block, self.joints(block), truncation)

    def factors(self, block: Rows, weighted: bool = False) -> Float64:
        """Posterior means of the factors (paper, eq:z_gauss_params).

        Parameters
        ----------
        block : (n, D) array
            Rows.
        weighted : bool
            Average over the posteriors of the components, Σ_c p(c|x) E[z|c,x]; else take the most probable one.

        Returns
        -------
        (n, H) float64 array
            In standard deviations of the prior.
        """
        if not weighted:
            return self._exact.factors(block, np.arange(len(block)), self._exact.with_best(block)[1])
        pairs = self._pairs(block, None)
        sums, row_numbers = np.zeros((len(block), self.mixture.n_factors)), _rows_of(pairs.indptr)
        np.add.at(sums, row_numbers, pairs.probabilities[:, None] * pairs.factors)  # in the order of the pairs
        return sums

    def expected(self, block: Rows, truncation: int | None = None) -> Float64:
        """Expected rows without noise, Σ_c p(c|x)(Λ_c E[z|c,x] + μ_c) (paper, zero-eq:deri4 and eq:de_mfa_approx).

        Parameters
        ----------
        block : (n, D) array
            Rows.
        truncation : int, optional
            C', components that count in each row; by default all.

        Returns
        -------
        (n, D) float64 array
            In the units of the data.
        """
        pairs, mixture = self._pairs(block, truncation), self._exact.mixture
        rows = evaluate_expected_rows(pairs, mixture.means, mixture.loadings, self.cores)
        if mixture.offset.any():
            rows += mixture.offset
        return rows

    def _pairs(self, block: Rows, truncation: int | None) -> RowPairs:
        """The components that count for each row, with their factor means."""
        if truncation is None or truncation >= len(self._alive):
            posteriors = dense_posteriors(self._exact, block, self.joints(block))
            row_numbers, components = np.nonzero(posteriors > _NEGLIGIBLE)
            probabilities = posteriors[row_numbers, components]
        else:
            kept = self._kept(block, truncation)
            row_numbers, rank = np.nonzero(kept.probabilities > _NEGLIGIBLE)
            components = kept.components[row_numbers, rank].astype(np.int64)
            probabilities = kept.probabilities[row_numbers, rank]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row_numbers, minlength=len(block)))])
        factors = self._exact.factors(block, row_numbers, components)
        return RowPairs(indptr, components, probabilities, factors)


@cache
def _shared_cores(n_threads: int, process: int) -> Cores:
    """Threads that all models of a process share; those of a parent process do not survive a fork."""
    return Cores(n_threads)


def _of_components(mixture: Mixture, chosen: Int64) -> Mixture:
    """The mixture of some components, with their weights unchanged."""
    if len(chosen) == mixture.n_components:
        return mixture
    names = ("weights", "means", "loadings", "noise_variances")
    return replace(mixture, **{name: getattr(mixture, name)[chosen] for name in names})


def _rows_of(indptr: Int64) -> Int64:
    """Row number of each pair."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
