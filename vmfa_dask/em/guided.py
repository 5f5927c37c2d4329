"""Guided evaluation: each row is compared with the neighbours of its kept components (paper, Algorithm 1).

Within a row block the search spaces of a tile of rows are evaluated together, regrouped by component, so that the
parameters of a component are loaded once for all rows that ask for it. May import: values, kernels, runtime, em.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vmfa_dask.em.evaluation import evaluate_joints
from vmfa_dask.em.packed import ModelVersion, Screening
from vmfa_dask.em.row_block import RowBlock
from vmfa_dask.em.rows import Rows
from vmfa_dask.em.screening import anchor, estimate_joints, screened_rows, select
from vmfa_dask.kernels import search
from vmfa_dask.kernels.arguments import Draws, Graph
from vmfa_dask.kernels.truncation import truncate
from vmfa_dask.runtime.buffers import BufferPool
from vmfa_dask.runtime.clock import Stopwatch
from vmfa_dask.runtime.threads import Cores
from vmfa_dask.values import Int32, Int64, TruncatedPosterior


@dataclass(frozen=True)
class SearchOptions:
    """How the search spaces of rows are made in a pass.

    Parameters
    ----------
    exhaustive : bool
        Evaluate every component for every row.
    truncation : int
        C', components kept per row.
    neighborhoods : tuple of int
        Neighbours that each kept component proposes, by rank.
    size : int
        S, the largest number of candidates per row.
    random_candidates : int
        Uniform components added to each search space.
    search_every : int
        R; rows whose kept components have settled are searched in every R-th pass.
    by_divergence : bool
        Whether components are compared by their KL divergences, or by mean log-joints.
    random_state : int
        Seed of all draws.
    tile_rows : int
        Rows of a block whose candidates are evaluated together.
    iteration : int
        Number of the pass, of which random candidates are a hash.
    search : bool
        Evaluate search spaces; otherwise only the kept components.
    """

    exhaustive: bool
    truncation: int
    neighborhoods: tuple[int, ...]
    size: int
    random_candidates: int
    search_every: int
    by_divergence: bool
    random_state: int
    tile_rows: int
    iteration: int
    search: bool


@dataclass(frozen=True)
class GuidedSearch:
    """Blocks 1 and 4 of Algorithm 1: search spaces, and truncation to the best C' of each.

    Parameters
    ----------
    model : ModelVersion
        The mixture, and the neighbours of its components. Those without weight are no candidates.
    options : SearchOptions
        Sizes and seeds.
    cores, buffers, watch : Cores, BufferPool, Stopwatch
        Threads, memory and clock of this process.
    """

    model: ModelVersion
    options: SearchOptions
    cores: Cores
    buffers: BufferPool
    watch: Stopwatch

    def evaluate(self, rows: Rows, first_row: int, posterior: TruncatedPosterior) -> RowBlock:
        """Search spaces, log-joints and truncation of a row block.

        Parameters
        ----------
        rows : (n, D) array
            Rows as `em.rows.working_rows` returns them.
        first_row : int
            Number of the first row in the data, of which its random candidates are a hash.
        posterior : TruncatedPosterior
            Kept components of these rows.

        Returns
        -------
        RowBlock
        """
        options, components, alive = self.options, posterior.components, self.model.mixture.weights > 0
        # Without search the kept components are the only candidates, and their arrays are as narrow.
        size = options.size if options.search else options.truncation
        block = RowBlock.empty(len(rows), size, options.truncation, self.buffers)
        # Dropped components keep their place in all arrays; a weight of 0 tells them apart.
        graph = Graph(self.model.graph.neighbors, np.array(options.neighborhoods), alive)
        draws, spaces = Draws(options.random_state, options.iteration, first_row), block.spaces
        searched = self._rows_to_search(posterior, draws)
        with self.watch.phase("search"):
            self.cores.run(
                lambda a, b: search.search_spaces(
                    components, searched, graph, options.random_candidates, draws, a, b, spaces
                ),
                self.cores.split(len(rows), block.operations),
            )
        # All tiles write side by side into one array: positions in it are those of the log-joints, which truncation
        # looks up.
        members = self.buffers.empty(block.log_joints.shape, np.int32)
        screening, evaluated = self.model.screening if options.search else None, block.sizes
        if screening is not None:
            evaluated = self.buffers.empty(block.sizes.shape, np.int32)
        for start in range(0, len(rows), options.tile_rows):
            stop = min(start + options.tile_rows, len(rows))
            if screening is not None:
                self._screen_tile(rows, start, stop, block, members, screening, components, evaluated)
            self._evaluate_tile(rows, start, stop, block, members, evaluated)
        truncated = block.truncated
        with self.watch.phase("truncation"):
            if screening is not None:
                anchor(block, evaluated, self.cores)
            # What was evaluated on a part of the features alone is not kept.
            spaces, ranges = spaces._replace(sizes=evaluated), self.cores.split(len(rows), block.operations)
            self.cores.run(lambda a, b: truncate(spaces, a, b, truncated), ranges)
        # Truncation may reorder the kept components; a row rests if it kept the same set.
        if posterior.resting is not None:
            block.resting = np.empty_like(posterior.resting)
            search.unchanged_rows(components, block.components, block.resting)
        return block

    def _rows_to_search(self, posterior: TruncatedPosterior, draws: Draws) -> NDArray[np.uint8]:
        """Which rows of a block are searched in this pass, (n,) uint8."""
        # Rows that rest are still evaluated with their kept components, so that their moments follow the parameters.
        searched = np.full(len(posterior.components), self.options.search, np.uint8)
        if self.options.search and posterior.resting is not None:
            search.rows_to_search(posterior.resting, self.options.search_every, draws, searched)
        return searched

    def _screen_tile(
        self,
        rows: Rows,
        start: int,
        stop: int,
        block: RowBlock,
        members: Int32,
        screening: Screening,
        components: Int32,
        out_sizes: Int32,
    ) -> None:
        """Choose the candidates of rows ``start:stop`` that are evaluated on all features; they become the first."""
        step = screened_rows(stop - start, block.candidates.shape[1], self.model.mixture.n_components)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            # Members, slots and log-joints are overwritten by the next rows, and when the chosen ones are evaluated.
            with self.watch.phase("search"):
                indptr = self._regroup(first, last, block, members, block.sizes)
            with self.watch.phase("log_joints"):
                estimate_joints(rows, members, indptr, self.model.packed, screening, self.cores, block)
            with self.watch.phase("search"):
                select(block, components, first, last, self.cores, out_sizes)

    def _evaluate_tile(
        self, rows: Rows, start: int, stop: int, block: RowBlock, members: Int32, sizes: Int32
    ) -> None:
        """Log-joints of rows ``start:stop`` with the first `sizes` of their candidates, by component."""
        # A tile stays in a shared cache while every component that its rows ask for passes over it once.
        with self.watch.phase("search"):
            indptr = self._regroup(start, stop, block, members, sizes)
        with self.watch.phase("log_joints"):
            evaluate_joints(rows, members, indptr, self.model.packed, self.cores, block.log_joints)
        block.n_joints = int(indptr[-1])

    def _regroup(self, start: int, stop: int, block: RowBlock, members: Int32, sizes: Int32) -> Int64:
        """Transpose the candidates of a tile; row ranges are scattered side by side, rows of a component in order."""
        c = self.model.mixture.n_components
        # One range per thread: each has a row of C counters, which are summed over the ranges.
        parts = self.cores.split(stop - start, block.operations, parts_per_thread=1)
        ranges = [(start + a, start + b) for a, b in parts]
        counts = np.zeros((len(ranges), c), np.int64)

        def count(a: int, b: int) -> None:
            search.count_by_component(block.candidates, sizes, a, b, counts[ranges.index((a, b))])

        def scatter(a: int, b: int) -> None:
            search.group_by_component(
                block.candidates, sizes, a, b, begins[ranges.index((a, b))], members, block.slots
            )

        # Counted first, so that every range knows where its rows of a component go and all can scatter without locks.
        self.cores.run(count, ranges)
        totals = np.zeros(c + 1, np.int64)
        over_components = self.cores.split(c, 4 * len(ranges))
        self.cores.run(lambda a, b: np.sum(counts[:, a:b], axis=0, out=totals[a + 1 : b + 1]), over_components)
        # Behind the candidates of the tiles before.
        totals[0] = block.n_joints
        indptr = np.cumsum(totals)
        begins = np.empty_like(counts)

        # Ranges in order, and rows in order within each: members of a component are sorted, whatever the threads.
        def begin(a: int, b: int) -> None:
            begins[0, a:b] = indptr[a:b]
            for k in range(1, len(ranges)):
                np.add(begins[k - 1, a:b], counts[k - 1, a:b], out=begins[k, a:b])

        self.cores.run(begin, over_components)
        self.cores.run(scatter, ranges)
        return indptr
