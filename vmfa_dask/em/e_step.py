"""The partial variational E-step (paper, Algorithm 1): row blocks in, sums over their rows out.

How rows find their components is in `guided` and `exhaustive`. May import: values, kernels, runtime, em.
"""

from __future__ import annotations

import numpy as np

from vmfa_dask.em.evaluation import add_moments
from vmfa_dask.em.exhaustive import evaluate_exhaustively
from vmfa_dask.em.guided import GuidedSearch, SearchOptions
from vmfa_dask.em.packed import PackedMixture
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.em.rows import Rows
from vmfa_dask.em.statistics import add_divergences
from vmfa_dask.kernels.arguments import Regrouped, Tallies
from vmfa_dask.kernels.moments import NEGLIGIBLE
from vmfa_dask.kernels.parameters import add_posterior_covariances
from vmfa_dask.kernels.search import unchanged_rows
from vmfa_dask.kernels.tallies import tally_divergences
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Divergences, Mixture, Moments, NeighborGraph, RowTally, Statistics, TruncatedPosterior


class NoFiniteDensity(ArithmeticError):
    """No component gives a row a finite log-joint; `row` is its index in the row block."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} of the block has no finite log-joint")
        self.row = row


class PartialEStep:
    """The E-step of some row blocks under one model version; `add` takes them in order.

    Parameters
    ----------
    mixture, packed, graph : Mixture, PackedMixture, NeighborGraph
        The model version.
    options : SearchOptions
        How search spaces are made.
    iteration : int
        Number of the pass, of which random candidates are a hash.
    search : bool
        Evaluate search spaces and tally divergences; without it only the kept components are evaluated.
    moments : Moments or None
        Memory for the moments, whose first row block overwrites it; None where none are wanted.
    cores, buffers : Cores, BufferPool
        Threads and memory of this process.

    Attributes
    ----------
    moments : Moments or None
        Sums over all rows so far.
    divergences : Divergences or None
        Tallies over all rows so far.
    tally : RowTally
        Rows, log-joints and free energy so far.
    watch : Stopwatch
        Seconds per phase.
    """

    def __init__(
        self,
        mixture: Mixture,
        packed: PackedMixture,
        graph: NeighborGraph,
        options: SearchOptions,
        iteration: int,
        search: bool,
        moments: Moments | None,
        cores: Cores,
        buffers: BufferPool,
    ) -> None:
        self.mixture, self.packed, self.options = mixture, packed, options
        self.search, self.moments = search, moments
        self.cores, self.buffers = cores, buffers
        self.watch = Stopwatch()
        alive = mixture.weights > 0
        self._guided = GuidedSearch(packed, graph, alive, options, iteration, search, cores, buffers, self.watch)
        self.divergences: Divergences | None = None
        self.tally = RowTally(0, 0, 0.0)

    def add(self, rows: Rows, first_row: int, posterior: TruncatedPosterior) -> TruncatedPosterior:
        """Evaluate a row block and add it to the sums.

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.
        first_row : int
            Number of the first row in the data.
        posterior : TruncatedPosterior
            Kept components of these rows.

        Returns
        -------
        TruncatedPosterior
            Their new kept components.

        Raises
        ------
        NoFiniteDensity
            If no component gives a row a finite log-joint.
        """
        if self.options.exhaustive:
            tools = (self.cores, self.buffers, self.watch)
            block = evaluate_exhaustively(rows, self.packed, self.options.truncation, *tools)
        else:
            block = self._guided.evaluate(rows, first_row, posterior)
        finite = np.isfinite(block.free_energy)
        if not finite.all():
            raise NoFiniteDensity(int(np.argmin(finite)))
        resting = None
        if posterior.resting is not None:
            resting = np.empty_like(posterior.resting)
            unchanged_rows(posterior.components, block.components, resting)
        if self.search:
            self._tally_divergences(block)
        if self.moments is not None:
            self._add_moments(rows, block, self.moments)
        self.tally += RowTally(len(rows), block.n_joints, float(np.sum(block.free_energy)))
        return TruncatedPosterior(block.components, resting)

    def finish(self) -> None:
        """Complete the second moments of the factors, once all row blocks were added."""
        if self.moments is not None:
            add_posterior_covariances(self.packed.cholesky, self.moments.counts, self.moments.factor_moments)

    def statistics(self, start: int, stop: int) -> Statistics:
        """What the rows contribute to components ``start:stop``.

        Parameters
        ----------
        start, stop : int
            A component block.

        Returns
        -------
        Statistics
            Views of the sums.
        """
        moments = self.moments.block(start, stop) if self.moments else None
        divergences = self.divergences.block(start, stop) if self.divergences else None
        return Statistics(self.mixture.version, start, stop, moments, divergences)

    def _tally_divergences(self, block: RowBlock) -> None:
        """Blocks 2 and 3 of Algorithm 1: partition rows by their best component, tally the estimated divergences."""
        with self.watch.phase("tallies"):
            c = self.mixture.n_components
            winners = block.components[:, 0]
            members = np.argsort(winners, kind="stable").astype(np.int32)
            indptr = np.concatenate([[0], np.cumsum(np.bincount(winners, minlength=c))])
            # Room for the entries of a component: as many as its rows have candidates, and no more than C.
            room = np.minimum(np.bincount(winners, weights=block.sizes, minlength=c).astype(np.int64), c)
            offsets = np.concatenate([[0], np.cumsum(room)])
            lengths, ids = np.zeros(c, np.int32), np.empty(offsets[-1], np.int32)
            sums, counts = np.empty(offsets[-1]), np.empty(offsets[-1], np.int64)
            shifts, best = self.packed.log_weights, block.best - self.packed.log_weights[winners]
            if not self.options.by_divergence:
                shifts, best = np.zeros_like(shifts), np.zeros_like(best)
            regrouped, spaces = Regrouped(members, indptr), block.spaces
            tallies = Tallies(offsets, ids, sums, counts)
            self.cores.run(
                lambda a, b: tally_divergences(regrouped, spaces, best, shifts, a, b, lengths, tallies),
                self.cores.split_by_work(indptr),
            )
            ends = np.concatenate([[0], np.cumsum(lengths)])
            used = np.repeat(offsets[:-1] - ends[:-1], lengths) + np.arange(lengths.sum())
            tallied = Divergences(ends, ids[used], sums[used], counts[used])
            self.divergences = tallied if self.divergences is None else add_divergences(self.divergences, tallied)

    def _add_moments(self, rows: Rows, block: RowBlock, moments: Moments) -> None:
        """Moments of the rows of a block under the components that matter to them; the first block overwrites."""
        with self.watch.phase("moments"):
            row, rank = np.nonzero(block.responsibilities > NEGLIGIBLE)
            owner = block.components[row, rank]
            order = np.argsort(owner, kind="stable")
            members, weights = row[order].astype(np.int32), block.responsibilities[row[order], rank[order]]
            indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=self.mixture.n_components))])
            add = self.tally.n_rows > 0
            add_moments(rows, members, indptr, weights, self.packed, self.mixture.means, self.cores, add, moments)
